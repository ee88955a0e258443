//! A headless Chromium for each test.

use crate::common::LIMIT;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use thirtyfour::{ChromiumLikeCapabilities, DesiredCapabilities, LoggingPrefsLogLevel, TypingData, WebDriver};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// One browser with one page.
#[derive(Clone)]
pub struct Browser(WebDriver);

/// Runs a test in a browser, which is stopped however the test ends.
pub async fn in_browser<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(Browser) -> F) {
    let chromium = chromium();
    let profile = tempfile::tempdir().unwrap();
    let (mut chromedriver, url) = chromedriver().await;
    let mut capabilities = DesiredCapabilities::chrome();
    capabilities.set_binary(&chromium).unwrap();
    let profile_argument = format!("--user-data-dir={}", profile.path().display());
    // A container has no sandbox for root, and little /dev/shm.
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        &profile_argument,
    ];
    for argument in arguments {
        capabilities.add_arg(argument).unwrap();
    }
    capabilities.set_browser_log_level(LoggingPrefsLogLevel::All).unwrap();
    let driver = timeout(LIMIT * 3, WebDriver::new(url, capabilities)).await.unwrap().unwrap();
    let browser = Browser(driver.clone());
    browser.size(1280, 900).await;
    let outcome = tokio::spawn(test(browser)).await;
    let _ = timeout(LIMIT, driver.quit()).await;
    let _ = chromedriver.kill().await;
    if let Err(error) = outcome {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// The path of Chromium; its driver must exist too.
fn chromium() -> String {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| std::env::split_paths(&paths).map(|dir| dir.join(name)).find(|path| path.is_file());
    if let (Some(chromium), Some(_)) = (find("chromium"), find("chromedriver")) {
        return chromium.display().to_string();
    }
    panic!("no Chromium: sudo apt-get install -y --no-install-recommends chromium chromium-driver");
}

async fn chromedriver() -> (Child, String) {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = timeout(LIMIT, async {
        loop {
            let line = lines.next_line().await.unwrap().expect("chromedriver says on which port it listens");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                return port.trim_end_matches('.').to_owned();
            }
        }
    });
    let url = format!("http://127.0.0.1:{}", port.await.unwrap());
    // Drains its output, which nobody else reads.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, url)
}

impl Browser {
    /// Opens a page.
    pub async fn open(&self, url: &str) {
        self.0.goto(url).await.unwrap();
    }

    /// Sends a command of the Chrome DevTools Protocol.
    pub async fn chrome(&self, method: &str, parameters: Value) -> Value {
        self.0.cdp().send_raw(method, parameters).await.unwrap()
    }

    /// Sets the size of the viewport.
    pub async fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.chrome("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Sets the colour scheme, `light` or `dark`.
    pub async fn scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.chrome("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// The value of a JavaScript expression.
    pub async fn value<T: DeserializeOwned>(&self, expression: &str) -> T {
        let result = self.0.execute(format!("return ({expression})"), Vec::new()).await.unwrap();
        serde_json::from_value(result.json().clone()).unwrap_or_else(|e| panic!("{expression}: {e}: {}", result.json()))
    }

    /// The visible text of the first element that matches this selector; empty if there is none.
    pub async fn text(&self, selector: &str) -> String {
        self.value(&format!("document.querySelector({selector:?})?.innerText ?? ''")).await
    }

    /// The number of elements that match this selector.
    pub async fn count(&self, selector: &str) -> usize {
        self.value(&format!("document.querySelectorAll({selector:?}).length")).await
    }

    /// Waits until a JavaScript expression is true.
    pub async fn until(&self, condition: &str) {
        let start = Instant::now();
        while !self.value::<bool>(&format!("Boolean({condition})")).await {
            if start.elapsed() > LIMIT * 2 {
                let body: String = self.value("document.body.innerText").await;
                panic!("{condition} did not come to pass:\n{body}\n{:?}", self.console().await);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the first element of `selector` shows `text`.
    pub async fn until_shown(&self, selector: &str, text: &str) {
        self.until(&format!("(document.querySelector({selector:?})?.innerText ?? '').includes({text:?})")).await;
    }

    /// Presses keys, at the current focus.
    pub async fn press(&self, keys: impl Into<TypingData>) {
        self.0.action_chain().send_keys(keys).perform().await.unwrap();
    }

    /// The messages in the console since the last call.
    pub async fn console(&self) -> Vec<String> {
        let logs = self.0.get_log("browser").await.unwrap_or_default();
        logs.into_iter().map(|entry| entry.message).collect()
    }

    /// Writes a screenshot of the viewport.
    pub async fn picture(&self, path: &Path) {
        self.0.screenshot(path).await.unwrap();
    }
}
