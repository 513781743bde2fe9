//! An error in which a server answers: what it means, and how it is told (rule 17).

use redis::{ServerError, Value};

use crate::error::{Cause, MAX_REASON};

/// The code of an error. A script's error has the code of the command that failed in it.
fn code(error: &ServerError) -> &str {
    let (code, details) = (error.code(), error.details().unwrap_or_default());
    if code != "ERR" {
        return code;
    }
    // Redis 6.0 to 7.0 have these words for it inside a script.
    if details.contains("The user executing the script can't") {
        return "NOPERM";
    }
    // Redis before 7 writes the whole error of the command behind the name and the line of the script.
    let Some(details) = details.strip_prefix("Error running script") else { return code };
    let words = details.split(": ").filter_map(|it| it.split_whitespace().next());
    let is_code = |it: &&str| it.len() > 1 && it.bytes().all(|byte| byte.is_ascii_uppercase());
    words.map(|it| it.trim_start_matches('-')).find(is_code).unwrap_or(code)
}

/// Whether a server says by this error that it has not run the command. Any other error may come
/// from a proxy, which does not know what the server behind it did, or from a command within a script.
pub(super) fn is_refusal(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else { return false };
    // Since Redis 7 a script's error has the code of the command that failed in it, and says so behind it. What the
    // script did before that stays done.
    let is_within_script = error.details().is_some_and(|details| details.contains("@user_script"));
    !is_within_script
        && matches!(
            error.code(),
            "ASK"
                | "BUSY"
                | "CLUSTERDOWN"
                | "CROSSSLOT"
                | "LOADING"
                | "MASTERDOWN"
                | "MISCONF"
                | "MOVED"
                | "NOAUTH"
                | "NOPERM"
                | "NOREPLICAS"
                | "NOSCRIPT"
                | "OOM"
                | "READONLY"
                | "TRYAGAIN"
                | "WRONGPASS"
                | "WRONGTYPE"
        )
}

/// Whether a server says that a key is no string: other clients hold it as readers, or another program
/// uses it.
pub(super) fn is_of_another_type(error: &ServerError) -> bool {
    code(error) == "WRONGTYPE"
}

/// The cause of a server's error.
pub(super) fn cause(answer: &Value) -> Cause {
    let Value::ServerError(error) = answer else { return Cause::Other };
    match code(error) {
        "MASTERDOWN" | "READONLY" => Cause::Replica,
        "NOAUTH" | "WRONGPASS" => Cause::Login,
        "BUSY" | "CLUSTERDOWN" | "LOADING" | "MISCONF" | "NOREPLICAS" | "OOM" | "TRYAGAIN" => {
            Cause::Passing
        }
        _ => Cause::Other,
    }
}

/// A server's error in its own words, one line of bounded length, and what to do about it where
/// that is known. Neither `secret` (a password or a lock's value) nor the arguments of a command
/// are part of it (rule 19).
pub(super) fn explain(error: &ServerError, secret: &str) -> String {
    let code = error.code();
    let mut text = code.to_owned();
    if let Some(line) = error.details().and_then(|details| details.lines().next()) {
        // "unknown command 'HELLO', with args beginning with: 'AUTH' 'default' 'the password'": the
        // server cuts each argument to some length, so a search for the secret alone would not find
        // all of it.
        let line = line.split_once(", with args").map_or(line, |(before, _)| before);
        text.push(' ');
        text.extend(line.chars().filter(|c| !c.is_control()));
    }
    // The words of these errors are known, and repeat no argument. If the password happens to be one of these words, a
    // gap in its place would tell it.
    let is_known =
        matches!(
            code,
            "LOADING" | "MASTERDOWN" | "MISCONF" | "NOAUTH" | "NOPERM" | "READONLY" | "WRONGPASS"
        ) || error.details().is_some_and(|details| details.starts_with("max number of clients"));
    if !secret.is_empty() && !is_known {
        text = text.replace(secret, "***");
    }
    if let Some((end, _)) = text.char_indices().nth(MAX_REASON) {
        text.truncate(end);
        text.push('…');
    }
    if let Some(advice) = advice(error) {
        text.push_str(" (");
        text.push_str(advice);
        text.push(')');
    }
    text
}

fn advice(error: &ServerError) -> Option<&'static str> {
    const PERMISSIONS: &str = "a lock's user needs +ping +info +set +get +del +pexpire +pttl \
                               +eval +evalsha, +client|tracking +client|caching to be woken, \
                               +mget +zadd +zrem +zrange +zrank +zscore +zcard +exists +time to \
                               wait in turn with other processes, +type +zremrangebyscore for \
                               readers, +zcount +zremrangebyscore for permits, +time for a fencing token, +select for a database, and the keys under key_prefix";
    match code(error) {
        "CROSSSLOT" => Some(
            "in a cluster, what is locked together shares a tag, as in order:{7}:a and order:{7}:b, and a \
             name has no brace that makes no tag, as a}b or a{}b; other nodes are independent masters",
        ),
        "TRYAGAIN" => Some(
            "these keys are about to be on another member: ask again when their slot has moved",
        ),
        "MOVED" | "ASK" => Some(
            "nodes are independent masters; a whole cluster is one node with Node::cluster. If it is given so, its \
             members disagree about this slot",
        ),
        "CLUSTERDOWN" => Some(
            "the cluster has lost some of its slots, or the majority of its masters; nodes are independent masters, and \
             a whole cluster is one node with Node::cluster",
        ),
        "READONLY" => Some("this server is a replica: a node is a master"),
        "NOAUTH" => Some(
            "put the password into the URL: redis://user:password@host:port, or use \
             Node::credentials, and for sentinels Node::sentinel_credentials",
        ),
        "WRONGPASS" => Some("check the user and password; in a URL they are percent-encoded"),
        "NOPERM" => Some(permission(error).unwrap_or(PERMISSIONS)),
        _ => None,
    }
}

/// The permissions for a command that no lock needs by itself.
fn permission(error: &ServerError) -> Option<&'static str> {
    let (_, command) = error.details()?.split_once("run the '")?;
    match command.split(['|', '\'']).next()? {
        "cluster" => {
            Some("the user of a cluster needs +cluster|slots, and should have +cluster|info")
        }
        "wait" => Some("the user of a node with replicas(n) needs +wait"),
        "sentinel" => Some("the user of a sentinel needs +ping +sentinel|get-master-addr-by-name"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &str) -> Value {
        redis::parse_redis_value(bytes.as_bytes()).unwrap()
    }

    fn told(bytes: &str, secret: &str) -> String {
        match parse(bytes) {
            Value::ServerError(error) => explain(&error, secret),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_permission_that_a_command_needs_is_named() {
        for (command, needs) in [
            ("cluster|slots", "+cluster|slots"),
            ("cluster", "+cluster|slots"),
            ("wait", "+wait"),
            ("sentinel|get-master-addr-by-name", "+sentinel|"),
            ("set", "+set"),
        ] {
            let words =
                format!("-NOPERM this user has no permissions to run the '{command}' command\r\n");
            let text = told(&words, "");
            assert!(text.contains(needs), "{text}");
            assert_eq!(text.contains("+pexpire"), command == "set", "{text}");
        }
    }

    #[test]
    fn only_what_redis_itself_refuses_has_surely_not_run() {
        for refusal in ["OOM command not allowed", "READONLY You can't", "LOADING Redis is"] {
            assert!(is_refusal(&parse(&format!("-{refusal}\r\n"))), "{refusal}");
        }
        for other in ["-upstream failure\r\n", "-ERR timeout\r\n", ":5\r\n", "+QUEUED\r\n"] {
            assert!(!is_refusal(&parse(other)), "{other}");
        }
    }

    #[test]
    fn an_error_has_its_cause_from_its_code_and_not_from_its_words() {
        for (error, expected) in [
            ("READONLY You can't write against a read only replica.", Cause::Replica),
            ("MASTERDOWN Link with MASTER is down", Cause::Replica),
            ("NOAUTH Authentication required.", Cause::Login),
            ("WRONGPASS invalid username-password pair", Cause::Login),
            ("BUSY Redis is busy running a script.", Cause::Passing),
            ("LOADING Redis is loading the dataset in memory", Cause::Passing),
            ("CLUSTERDOWN The cluster is down", Cause::Passing),
            ("NOREPLICAS Not enough good replicas to write.", Cause::Passing),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Cause::Passing),
            ("ERR READONLY is what a proxy says", Cause::Other),
        ] {
            assert_eq!(cause(&parse(&format!("-{error}\r\n"))), expected, "{error}");
        }
        assert_eq!(cause(&parse("+READONLY\r\n")), Cause::Other);
    }

    /// What the script's error says in front of that of the command.
    const WITHIN: &str =
        "ERR Error running script (call to f_0): @user_script:1: @user_script: 1: ";

    #[test]
    fn a_script_of_redis_6_has_the_cause_of_the_command_that_failed_in_it() {
        for (words, expected) in [
            ("-READONLY You can't write against a read only replica.", Cause::Replica),
            ("-MASTERDOWN Link with MASTER is down and so on: 'no'.", Cause::Replica),
            ("-OOM command not allowed when used memory > 'maxmemory'.", Cause::Passing),
            ("-MISCONF Redis is configured to save RDB snapshots", Cause::Passing),
            ("ERR value is not an integer or out of range", Cause::Other),
            ("Unknown Redis command called from Lua script", Cause::Other),
        ] {
            let answer = parse(&format!("-{WITHIN}{words}\r\n"));
            assert_eq!(cause(&answer), expected, "{words}");
            assert!(!is_refusal(&answer), "some of the script may have run");
        }
    }

    #[test]
    fn a_script_of_redis_7_may_have_run_up_to_the_command_that_failed_in_it() {
        let words =
            "NOPERM ACL failure in script: User app has no permissions to run the 'zadd' command";
        assert!(is_refusal(&parse(&format!("-{words}\r\n"))));
        let within = format!("-{words} script: 9bcdef, on @user_script:22.\r\n");
        assert!(!is_refusal(&parse(&within)));
    }

    #[test]
    fn a_key_of_another_type_is_told_by_the_code() {
        let of_another_type = |words: &str| match parse(&format!("-{words}\r\n")) {
            Value::ServerError(error) => is_of_another_type(&error),
            other => panic!("{other:?}"),
        };
        let error = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert!(of_another_type(error) && of_another_type(&format!("{WITHIN}{error}")));
        assert!(!of_another_type("ERR no WRONGTYPE here"));
    }

    #[test]
    fn an_error_that_has_a_remedy_names_it() {
        for (text, remedy) in [
            ("MOVED 3999 127.0.0.1:6381", "independent masters"),
            ("CLUSTERDOWN Hash slot not served", "independent masters"),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                "when their slot has moved",
            ),
            ("CROSSSLOT Keys in request don't hash to the same slot", "independent masters"),
            ("READONLY You can't write against a read only replica.", "is a replica"),
            ("NOAUTH Authentication required.", "password into the URL"),
            ("WRONGPASS invalid username-password pair", "check the user and password"),
            ("NOPERM this user has no permissions to run the 'set' command", "+set"),
            ("ERR The user executing the script can't run this command or subcommand", "+set"),
        ] {
            let reason = told(&format!("-{text}\r\n"), "s3cret");
            assert!(reason.starts_with(text) && reason.contains(remedy), "{reason}");
        }
    }

    #[test]
    fn secrets_and_arguments_stay_out() {
        let reason = told("-ERR bad value s3cret here\r\n", "s3cret");
        assert_eq!(reason, "ERR bad value *** here");
        let echo = "-ERR unknown command 'SET', with args beginning with: 'key' 's3cr\r\n";
        assert_eq!(told(echo, "s3cret"), "ERR unknown command 'SET'");
        // A gap in words that every user knows would tell the password.
        for (known, password) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", "password"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "e"),
            ("LOADING Redis is loading the dataset in memory", "memory"),
            ("ERR max number of clients reached", "clients"),
        ] {
            let reason = told(&format!("-{known}\r\n"), password);
            assert!(reason.starts_with(known), "{reason}");
        }
    }

    #[test]
    fn a_text_is_one_line_of_bounded_length() {
        let long = format!("-ERR {}\r\n", "ä".repeat(1000));
        let reason = told(&long, "s3cret");
        assert_eq!(reason.chars().count(), MAX_REASON + 1);
        let reason = told("-ERR one\x1b[31m\ntwo\r\n", "s3cret");
        assert_eq!(reason, "ERR one[31m");
    }
}
