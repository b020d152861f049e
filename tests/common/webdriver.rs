//! A browser to look at pages with: Chromium, by the WebDriver protocol of its driver.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A running browser, which ends with this value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; `None` where there is no driver, which is printed.
    pub fn start() -> Option<Self> {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut driver) = started else {
            println!("skipped: no chromedriver (Debian: apt-get install chromium chromium-driver)");
            return None;
        };
        let port = port_of(&mut driver);
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let directory = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,1000",
            &directory,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let answer = browser.send("POST", "/session", &wanted);
        browser.session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}")).to_owned();
        Some(browser)
    }

    /// Opens a file.
    pub fn open(&self, path: &Path) {
        self.post("url", json!({"url": format!("file://{}", path.display())}));
    }

    /// What `script`, the body of a function, returns; what it brought about has happened by then.
    pub fn run(&self, script: &str) -> Value {
        let value = self.script(script);
        self.settle();
        value
    }

    /// What the page's console has said since the last call.
    pub fn console(&self) -> Vec<String> {
        let entries = self.post("se/log", json!({"type": "browser"}));
        entries.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Moves the pointer to a place in the window, and clicks if asked to.
    pub fn point(&self, (x, y): (f64, f64), click: bool) {
        let mut actions = vec![json!({"type": "pointerMove", "duration": 0, "x": x as i64, "y": y as i64})];
        if click {
            actions.push(json!({"type": "pointerDown", "button": 0}));
            actions.push(json!({"type": "pointerUp", "button": 0}));
        }
        self.post("actions", json!({"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]}));
        self.settle();
    }

    /// Presses keys one after the other; special ones are those of the protocol.
    pub fn press(&self, keys: &str) {
        let both =
            |key: char| ["keyDown", "keyUp"].map(|what| json!({"type": what, "value": key.to_string()})).into_iter();
        let actions: Vec<Value> = keys.chars().flat_map(both).collect();
        self.post("actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
        self.settle();
    }

    /// A command of the browser's own protocol.
    pub fn cdp(&self, command: &str, parameters: Value) -> Value {
        self.post("goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// Writes what is seen, or the whole page, to `path`.
    pub fn picture(&self, path: &Path) {
        let answer = self.cdp("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        fs::write(path, STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    fn script(&self, script: &str) -> Value {
        self.post("execute/sync", json!({"script": script, "args": []}))
    }

    /// Waits for two frames: scroll and resize events come with the next one, however late a busy machine draws it, and
    /// a scroll event hides the hint.
    fn settle(&self) {
        self.script("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    fn post(&self, command: &str, body: Value) -> Value {
        self.send("POST", &format!("/session/{}/{command}", self.session), &body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.exchange(method, path, body).unwrap();
        let value = answer["value"].clone();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let body = body.to_string();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser, too, which outlives its driver otherwise.
        let _ = self.exchange("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that the driver says it listens on.
fn port_of(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains("started successfully on port")));
    let line = line.expect("the driver ended without a port");
    line.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap()
}
