//! The rights of the server's user that locks need, each with a command that changes nothing and shows whether the user
//! has it. They are those of the page Security, in its order.

/// For what a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Lock,
    /// Of a node that restarts, with `restart_guard`.
    Guard,
    /// Notifications of releases and losses.
    Notifications,
    /// A feature that a program may use.
    Feature(&'static str),
    /// Saves work only.
    Work,
    Sentinel,
    Cluster,
    Database,
}

/// A right, as an ACL rule.
#[derive(Debug)]
pub(super) struct Right {
    pub(super) rule: &'static str,
    pub(super) need: Need,
    /// KEY stands for the name of the key in the rule, or for one of a lock.
    command: &'static str,
}

const fn right(rule: &'static str, need: Need, command: &'static str) -> Right {
    Right { rule, need, command }
}

const RWLOCKS: Need = Need::Feature("read/write locks");

/// Each right. PREFIX stands for the key prefix.
pub(super) const RIGHTS: [Right; 39] = [
    right("~PREFIX*", Need::Lock, "GET KEY"),
    right("~{PREFIX*}:fence", Need::Feature("fencing"), "GET KEY"),
    right("~{PREFIX*}#*", Need::Feature("semaphores"), "GET KEY"),
    right("~{PREFIX*}:readers", RWLOCKS, "GET KEY"),
    right("~{PREFIX*}:turn", RWLOCKS, "GET KEY"),
    right("+evalsha", Need::Lock, "EVALSHA 0000000000000000000000000000000000000000 0"),
    right("+script|load", Need::Lock, "SCRIPT LOAD return"),
    right("+get", Need::Lock, "GET KEY"),
    right("+set", Need::Lock, "SET KEY x XX"),
    right("+del", Need::Lock, "DEL KEY"),
    right("+pttl", Need::Lock, "PTTL KEY"),
    right("+pexpire", Need::Lock, "PEXPIRE KEY 1"),
    right("+getrange", Need::Work, "GETRANGE KEY 0 0"),
    right("+mget", Need::Work, "MGET KEY"),
    right("+exists", Need::Work, "EXISTS KEY"),
    right("+ping", Need::Work, "PING"),
    right("+time", Need::Feature("fencing and read/write locks"), "TIME"),
    right("+zadd", RWLOCKS, "ZADD KEY XX 0 x"),
    right("+zrem", RWLOCKS, "ZREM KEY x"),
    right("+zscore", RWLOCKS, "ZSCORE KEY x"),
    right("+zrange", RWLOCKS, "ZRANGE KEY 0 0"),
    right("+zremrangebyscore", RWLOCKS, "ZREMRANGEBYSCORE KEY 0 0"),
    right("+select", Need::Database, "SELECT 0"),
    right("+wait", Need::Feature("min_replicas"), "WAIT 0 0"),
    right("+waitaof", Need::Feature("fsync"), "WAITAOF 0 0 0"),
    right("+client|tracking", Need::Notifications, "CLIENT TRACKING ON OPTOUT NOLOOP"),
    right("+client|caching", Need::Work, "CLIENT CACHING NO"),
    right("+client|tracking", Need::Notifications, "CLIENT TRACKING OFF"),
    right("+client|kill", Need::Work, "CLIENT KILL ID 0"),
    right("+client|id", Need::Work, "CLIENT ID"),
    right("+client|setname", Need::Work, "CLIENT SETNAME redlock-doctor"),
    right("+client|setinfo", Need::Work, "CLIENT SETINFO LIB-NAME redlock"),
    right("+info", Need::Guard, "INFO server"),
    right("+role", Need::Sentinel, "ROLE"),
    right("+cluster|slots", Need::Cluster, "CLUSTER SLOTS"),
    right("+cluster|nodes", Need::Cluster, "CLUSTER NODES"),
    right("+asking", Need::Cluster, "ASKING"),
    // Of `redlock ls`, which is for operators.
    right("+scan", Need::Feature("redlock ls"), "SCAN 0 COUNT 1"),
    // Of this command.
    right("+config|get", Need::Feature("redlock doctor"), "CONFIG GET timeout"),
];

impl Right {
    /// Whether a client with this URL may need it.
    pub(super) fn matters(&self, url: &str) -> bool {
        match self.need {
            Need::Sentinel => url.contains("+sentinel://"),
            Need::Cluster => url.contains("+cluster://"),
            Need::Database => url.rsplit('/').next().is_some_and(|db| db.parse::<u64>().is_ok()),
            _ => true,
        }
    }

    /// The rule, for these keys.
    pub(super) fn rule_for(&self, prefix: &str) -> String {
        self.rule.replace("PREFIX", prefix)
    }

    /// The command that tries it. No lock has this name.
    pub(super) fn command(&self, prefix: &str, name: &str) -> Vec<String> {
        let key = match self.rule.strip_prefix('~') {
            Some(pattern) => {
                let key = pattern.replacen('*', name, 1).replace('*', "0");
                key.replace("PREFIX", prefix)
            }
            None => format!("{prefix}{name}"),
        };
        let words = self.command.split(' ');
        words.map(|word| if word == "KEY" { key.clone() } else { word.to_owned() }).collect()
    }

    /// Whether this error of its command means that the user does not have it.
    pub(super) fn is_denied(&self, error: &str) -> bool {
        let command = self.command.split(' ').next().unwrap_or_default().to_lowercase();
        let is_about_command = error.contains(&format!("'{command}"));
        error.starts_with("NOPERM") && is_about_command != self.rule.starts_with('~')
    }
}
