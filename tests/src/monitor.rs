//! The commands of a server, as MONITOR reports them.

use std::{
    fmt,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use crate::{server::Server, wait::LIMIT};

/// One command, as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The sender: an address, or `lua` for a command that a script calls.
    pub from: String,
    /// Its words, escaped as MONITOR does.
    pub words: Vec<String>,
}

impl Command {
    /// The first word, in capitals.
    pub fn name(&self) -> String {
        self.words.first().map(|word| word.to_uppercase()).unwrap_or_default()
    }

    /// Called by a script, and not sent by a client.
    pub fn is_inside_script(&self) -> bool {
        self.from == "lua"
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.from, self.words.join(" "))
    }
}

/// A running MONITOR on a server without a password; [`finish`](Self::finish) tells what it saw.
#[derive(Debug)]
pub struct Monitor<'a> {
    server: &'a Server,
    /// The address of the harness's own connection, whose commands are not told.
    own: String,
    stream: BufReader<TcpStream>,
}

impl<'a> Monitor<'a> {
    pub(crate) fn start(server: &'a Server, own: String) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "CLIENT SETNAME {}\r\nMONITOR\r\n", crate::server::NAME).unwrap();
        let mut stream = BufReader::new(stream);
        for command in ["CLIENT SETNAME", "MONITOR"] {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), "+OK", "{command} was refused");
        }
        Self { server, own, stream }
    }

    /// The commands seen since the start, in order, without those of the harness.
    pub fn finish(mut self) -> Vec<Command> {
        // Everything answered before this mark was seen before it.
        let mark = "end of monitoring";
        self.server.command(&["ECHO", mark]);
        let mut commands = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let command = parse(line.trim_end()).unwrap_or_else(|| panic!("not a command: {line}"));
            if command.from == self.own {
                if command.words.last().is_some_and(|word| word == mark) {
                    return commands;
                }
            } else {
                commands.push(command);
            }
        }
    }
}

/// `+1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "value"`
fn parse(line: &str) -> Option<Command> {
    let (_, rest) = line.strip_prefix('+')?.split_once(" [")?;
    let (from, words) = rest.split_once("] ")?;
    let (_database, from) = from.split_once(' ')?;
    let words = words.strip_prefix('"')?.strip_suffix('"')?.split("\" \"");
    Some(Command { from: from.to_owned(), words: words.map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_monitor_is_read() {
        let command = parse(r#"+1.5 [0 127.0.0.1:5] "set" "a key" "v" "NX""#).unwrap();
        assert_eq!(command.from, "127.0.0.1:5");
        assert_eq!(command.words, ["set", "a key", "v", "NX"]);
        assert_eq!(command.name(), "SET");
        assert!(parse(r#"+1.5 [0 lua] "get" "k""#).unwrap().is_inside_script());
        assert_eq!(parse("+OK"), None);
    }
}
