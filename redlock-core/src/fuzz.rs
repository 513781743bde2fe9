//! The readers of outside input, over any bytes. `fuzz/` runs them with coverage. The tests here
//! run the corpora and some thousand inputs made of them, the same inputs every time.

pub use crate::node::{fuzz_frames as frames, fuzz_outbox as outbox};
use crate::{Node, Redlock};

/// Builds a client of this text as the URL of a node, by itself and behind a password.
///
/// # Panics
///
/// Panics if the error, or the output of `Debug`, depends on the password (rule 19).
pub fn urls(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = Redlock::builder().nodes([text.as_ref()]).build();
    let shown = |password: &str| {
        let urls = [
            format!("redis://:{password}@{text}"),
            format!("redis://user:{password}{text}"),
            format!("rediss://{text}:{password}@host:1"),
            format!("redis+unix:///{text}?pass={password}"),
        ];
        urls.map(|url| {
            let node = Node::from(&url);
            format!("{node:?}") + &format!("{:?}", Redlock::builder().nodes([node]).build())
        })
    };
    // Not that it is nowhere: the host may be the same word.
    assert_eq!(shown("hunter2"), shown("sesame8"), "{text:?}");
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::{
        prelude::*,
        sample::Index,
        test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
    };

    /// How many inputs are made of a corpus.
    const CASES: u32 = 3000;

    /// Runs the corpus, then generated inputs. Each of them has the beginning of one file of the
    /// corpus, random bytes, and the end of another file.
    fn bounded(corpus: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(corpus);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| fs::read(path).unwrap())
            .collect();
        assert!(files.len() >= 5, "{} has hardly a corpus", folder.display());
        files.sort();
        files.iter().for_each(|input| target(input));
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let part = || (any::<Index>(), any::<Index>());
        let inputs = (part(), proptest::collection::vec(any::<u8>(), 0..24), part());
        let made = TestRunner::new_with_rng(config, rng).run(&inputs, |(head, middle, tail)| {
            let (first, last) = (head.0.get(&files), tail.0.get(&files));
            let head = &first[..head.1.index(first.len() + 1)];
            let tail = &last[tail.1.index(last.len() + 1)..];
            target(&[head, &middle, tail].concat());
            Ok(())
        });
        if let Err(error) = made {
            panic!("{error}");
        }
    }

    #[test]
    fn any_bytes_are_read_as_replies_or_refused() {
        bounded("frames", super::frames);
    }

    #[test]
    fn any_text_is_a_url_or_refused_without_its_password() {
        bounded("urls", super::urls);
    }

    #[test]
    fn any_sequence_leaves_no_key_that_is_not_deleted() {
        bounded("outbox", super::outbox);
    }
}
