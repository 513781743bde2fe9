//! The console in a browser: hostile names stay text, a phone and a screen reader can use it, and it
//! follows the locks.
//!
//! `cargo xtask test` installs Chromium and axe-core, where that can be done. Without them these tests say
//! `SKIPPED`. With `REDLOCK_PICTURE=docs/manual/console.png`, the picture of the manual is taken anew.

mod browser;

use std::{fs, future::IntoFuture, net::SocketAddr, path::PathBuf, time::Duration};

use axum::Router;
use redlock_core::{LockGuard, MemoryNode, Redlock};
use redlock_tests::skipped;
use redlock_tower::console;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::browser::Browser;

/// The whole of a service: nodes, some of them in trouble, locks and requests that wait.
struct Service {
    nodes: [MemoryNode; 5],
    redlock: Redlock,
    address: SocketAddr,
}

impl Service {
    async fn start() -> Self {
        let nodes = std::array::from_fn(|_| MemoryNode::new());
        let redlock = Redlock::builder()
            .nodes(&nodes)
            .client_name("checkout-1")
            .max_ttl(Duration::from_secs(600))
            .build()
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().nest("/internal/locks", console::router(redlock.clone()));
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { nodes, redlock, address }
    }

    fn url(&self) -> String {
        format!("http://{}/internal/locks", self.address)
    }

    async fn lock(&self, resource: &str) -> LockGuard {
        self.redlock.lock(resource).await.unwrap()
    }

    /// A request that waits behind another one.
    fn wait_for(&self, resource: &str) {
        let request = self.redlock.lock(resource).wait(Duration::from_secs(3600));
        tokio::spawn(request.into_future());
    }
}

/// Runs a test with a browser on a thread where it may wait, if there is a browser.
async fn with_browser(test: &str, act: impl FnOnce(Browser) + Send + 'static) {
    let act = move || {
        let browser = Browser::start();
        browser.map(act).is_some()
    };
    if !tokio::task::spawn_blocking(act).await.unwrap() {
        skipped(test, "Chromium is not installed");
    }
}

/// The texts of the elements that a selector finds.
fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let found = format!("[...document.querySelectorAll({selector:?})].map((it) => it.textContent)");
    serde_json::from_value(browser.value(&found)).unwrap()
}

const HOSTILE: [&str; 8] = [
    "<img src=x onerror=\"window.harmed = true\">",
    "<script>window.harmed = true</script>",
    "</th></tr></tbody></table></main><svg onload=window.harmed=true>",
    "' onmouseover='window.harmed = true",
    "\" autofocus tabindex=1 onfocus=\"window.harmed = true",
    "a\n\ndata: <iframe srcdoc='<script>parent.harmed = true</script>'>",
    "&lt;script&gt;{{7*7}}${7*7}",
    "\u{202e}moc.elpmaxe\u{2066}\0",
];

/// A name as the page writes it: what cannot be seen is written out.
fn written(name: &str) -> String {
    let written = name.chars().map(|it| match it {
        '\n' | '\0' | '\u{202e}' | '\u{2066}' => it.escape_unicode().to_string(),
        it => it.to_string(),
    });
    written.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_text_in_the_page_and_in_its_updates() {
    let service = Service::start().await;
    let mut held = Vec::new();
    for name in HOSTILE {
        held.push(service.lock(name).await);
        service.wait_for(name);
    }
    let late = "<img src=y onerror='window.harmed = true'>";
    let (url, redlock) = (service.url(), service.redlock.clone());
    let runtime = tokio::runtime::Handle::current();
    with_browser("hostile_names_are_text_in_the_page_and_in_its_updates", move |mut browser| {
        browser.open(&url);
        let all = HOSTILE.map(written);
        assert_eq!(texts(&mut browser, "#held + .table tbody th"), all);
        browser.until("document.getElementById('news').textContent === 'Live.'");
        // By an update, too.
        let _late = runtime.block_on(redlock.lock(late).into_future()).unwrap();
        browser.until("document.body.textContent.includes('src=y')");
        assert_eq!(texts(&mut browser, "#held + .table tbody th")[..8], all);
        let mut waiting = texts(&mut browser, "#waiting + .table tbody th");
        waiting.sort_unstable();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(waiting, sorted);
        let foreign = "document.querySelectorAll('img, iframe, svg, main script, [onfocus]').length";
        assert_eq!(browser.value(foreign), 0);
        assert_eq!(browser.value("window.harmed === undefined"), true);

        // Were a name not escaped, the policy of the page would still stop it.
        browser.value("document.body.insertAdjacentHTML('beforeend', '<img src=z onerror=\"window.harmed = true\">')");
        browser.value(
            "new Promise((done) => { const it = document.querySelector('img'); it.complete ? done() : \
             (it.addEventListener('error', done), it.addEventListener('load', done)) })",
        );
        assert_eq!(browser.value("window.harmed === undefined"), true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_follows_the_locks_and_keeps_its_elements() {
    let service = Service::start().await;
    let first = service.lock("invoice:42").await;
    let (url, redlock, nodes) = (service.url(), service.redlock.clone(), service.nodes.clone());
    let runtime = tokio::runtime::Handle::current();
    with_browser("the_page_follows_the_locks_and_keeps_its_elements", move |mut browser| {
        browser.open(&url);
        browser.until("document.getElementById('news').textContent === 'Live.'");
        // A row that stays is the same element, and so is what a screen reader has announced.
        browser.value("document.querySelector('#held + .table tbody th').mark = true");
        browser.value("document.getElementById('verdict').mark = true");
        let second = runtime.block_on(redlock.lock("order:7").into_future()).unwrap();
        browser.until("document.body.textContent.includes('order:7')");
        assert_eq!(texts(&mut browser, "#held + .table tbody th"), ["invoice:42", "order:7"]);
        assert_eq!(browser.value("document.querySelector('#held + .table tbody th').mark"), true);
        drop(second);
        browser.until("!document.body.textContent.includes('order:7')");
        nodes[..3].iter().for_each(MemoryNode::stop);
        browser.until("document.getElementById('verdict').className === 'bad'");
        assert_eq!(browser.value("document.getElementById('verdict').mark"), true);
        let verdict = texts(&mut browser, "#verdict");
        assert!(verdict[0].starts_with("Only 2 of 5 nodes give votes"), "{verdict:?}");
    })
    .await;
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_when_the_process_does_not_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let app = console::router(Redlock::in_memory(3));
    let server = tokio::spawn(axum::serve(listener, app).into_future());
    with_browser("the_page_says_when_the_process_does_not_answer", move |mut browser| {
        browser.open(&url);
        browser.until("document.getElementById('news').textContent === 'Live.'");
        server.abort();
        // The connection that is open still answers, for ten seconds at most.
        browser.until("document.getElementById('news').textContent.startsWith('No news since')");
    })
    .await;
}

/// Where `cargo xtask test` puts axe-core.
fn axe() -> Option<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    fs::read_to_string(target.join("axe/node_modules/axe-core/axe.min.js")).ok()
}

/// A service on a bad day: one node down, one that sits out, locks with and without a token, a long name,
/// and requests that wait.
async fn bad_day(long: usize) -> (Service, Vec<LockGuard>) {
    let service = Service::start().await;
    let mut held = vec![service.lock("invoice:42").await];
    let fenced = service.redlock.lock("stock:lamp").fenced().await.unwrap();
    held.push(fenced);
    held.push(service.lock(&format!("tenant:{}", "x".repeat(long))).await);
    for _ in 0..3 {
        service.wait_for("invoice:42");
    }
    service.wait_for("stock:lamp");
    service.nodes[4].stop();
    service.nodes[3].stop();
    tokio::time::sleep(Duration::from_millis(200)).await;
    service.nodes[3].start();
    (service, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rule_of_axe_is_broken_and_nothing_is_wider_than_a_phone() {
    const TEST: &str = "no_rule_of_axe_is_broken_and_nothing_is_wider_than_a_phone";
    let Some(axe) = axe() else {
        return skipped(TEST, "axe-core is not installed (npm)");
    };
    let (service, held) = bad_day(200).await;
    let empty = Service::start().await;
    let urls = [service.url(), empty.url()];
    with_browser(TEST, move |mut browser| {
        for url in urls {
            for (width, height) in [(1280, 800), (360, 640)] {
                for dark in [false, true] {
                    browser.show_as(width, height, dark);
                    browser.open(&url);
                    browser.until("document.getElementById('news').textContent === 'Live.'");
                    let wide = browser.value("document.documentElement.scrollWidth");
                    assert!(wide.as_u64().unwrap() <= width.into(), "{wide} of {width}");
                    browser.value(&format!("{axe}; 0"));
                    let found = browser.value("axe.run().then((it) => JSON.stringify(it))");
                    let found: Value = serde_json::from_str(found.as_str().unwrap()).unwrap();
                    assert_eq!(found["violations"], json!([]), "{url} {width} dark: {dark}");
                    assert!(found["passes"].as_array().unwrap().len() > 10, "axe has looked");
                }
            }
        }
    })
    .await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the picture of the manual to the file that REDLOCK_PICTURE names"]
async fn the_picture_of_the_manual_is_taken_where_it_is_asked_for() {
    let picture = std::env::var_os("REDLOCK_PICTURE").expect("REDLOCK_PICTURE is set");
    let picture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(picture);
    let (service, held) = bad_day(8).await;
    let url = service.url();
    with_browser("the_picture_of_the_manual", move |mut browser| {
        browser.show_as(800, 780, false);
        browser.open(&url);
        browser.until("document.body.textContent.includes('for 9 min')");
        fs::write(picture, browser.picture()).unwrap();
    })
    .await;
    drop(held);
}
