//! A headless Chromium, driven by its DevTools protocol over a pipe.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use redlock_tests::LIMIT;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What packages call the program.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Chromium reads commands from descriptor 3 and writes answers to descriptor 4. The shell puts our pipes
/// there.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1"#;

/// A browser with one page. It ends when this is dropped, or with the test's process, whose end of the
/// pipe closes.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    profile: TempDir,
}

impl Browser {
    /// None, where no Chromium is installed.
    pub(crate) fn start() -> Option<Self> {
        let program = NAMES.iter().find_map(|name| found(name))?;
        let profile = tempfile::Builder::new().prefix("redlock-chromium-").tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", PIPES, "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Its children are in this group, too.
            .process_group(0)
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self { child, commands, answers, session: None, last: 0, profile };
        let page = browser.send("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.send("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.send("Page.enable", json!({}));
        Some(browser)
    }

    /// Sends a command and waits for its answer. Panics when the browser refuses it.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "the browser has ended");
            let mut answer: Value = serde_json::from_slice(&answer).unwrap();
            // Others are events.
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// The value of an expression in the page; of a promise, what it resolves to.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.send("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits in the page until an expression is true. Fails the test after a generous limit.
    pub(crate) fn until(&mut self, expression: &str) {
        let polled = format!(
            "new Promise((done) => {{
                const begun = Date.now();
                const look = () => {{
                    if ({expression}) done(true);
                    else if (Date.now() - begun > 60000) done(false);
                    else setTimeout(look, 20);
                }};
                look();
            }})"
        );
        let came = self.value(&polled) == true;
        assert!(came, "{expression} never: {}", self.value("document.body.innerText"));
    }

    /// Loads a page, and waits until it is there.
    pub(crate) fn open(&mut self, url: &str) {
        self.send("Page.navigate", json!({ "url": url }));
        self.until(&format!("location.href === '{url}' && document.readyState === 'complete'"));
    }

    /// How large the window is, and whether the user prefers dark colours.
    pub(crate) fn show_as(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.send("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.send("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of the window, as a PNG file.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let picture = self.send("Page.captureScreenshot", json!({ "format": "png" }));
        from_base64(picture["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        // Its children may still write for a moment. A panic here could abort the test.
        let begun = Instant::now();
        while fs::remove_dir_all(self.profile.path()).is_err()
            && self.profile.path().exists()
            && begun.elapsed() < LIMIT
        {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |digit| DIGITS.iter().position(|it| *it == digit).unwrap();
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | value(*digit));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend([16, 8, 0].map(|shift| (bits >> shift) as u8).iter().take(four.len() - 1));
    }
    bytes
}

#[test]
fn base64_is_read() {
    for (text, bytes) in
        [("", &b""[..]), ("TQ==", b"M"), ("TWE=", b"Ma"), ("TWFu+/8=", b"Man\xfb\xff")]
    {
        assert_eq!(from_base64(text), bytes, "{text}");
    }
}
