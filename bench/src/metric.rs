//! What is measured, and in what unit.

/// One figure of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Half of the locks with their release took no longer.
    P50,
    /// 99 of 100 took no longer.
    P99,
    /// [`Self::P50`] by that of the same client a moment before, when all nodes were healthy.
    P50Healthy,
    /// [`Self::P99`] by that of the same client a moment before, when all nodes were healthy.
    P99Healthy,
    /// From the return of nodes until every node votes again.
    Recovery,
    /// Locks and releases.
    PerSecond,
    /// Jain's index over the tasks.
    Jain,
    /// The least that a process got, as a part of its even share.
    LeastShare,
    /// The longest that a task waited for its turn.
    LongestWait,
    /// What one task got, as a part of what each of its rivals got.
    Share,
    /// Commands to one node for one lock and release.
    Commands,
    /// Commands to all nodes for one turn; a script counts as one.
    Sent,
    /// Commands to all nodes in a second from a client that only waits.
    WaiterCommands,
    /// Reads of one server for one lock and release: fewer than the commands, when commands come
    /// together.
    Reads,
    /// A client's first lock.
    FirstLock,
    /// A client's first lock with one node black-holed.
    FirstLockBlackHoled,
    /// The ratio of the two.
    FirstLockRatio,
    /// Time on a processor in this process.
    Processor,
    /// Time on a processor in all servers together.
    Servers,
    /// Both together, which limit the throughput of a machine that does nothing else.
    Together,
    /// Allocations in this process.
    Allocations,
    /// Bytes allocated in this process.
    Allocated,
    /// Locks that were held and were lost.
    Lost,
    /// The memory of this process for each lock that is held.
    Memory,
    /// Commands to all nodes.
    CommandsPerSecond,
    /// How many a server finds when it reads.
    CommandsPerRead,
    /// Requests that ended without a quorum.
    NoQuorum,
    /// Requests for a free lock that were refused because of another holder.
    FalselyHeld,
    /// Requests that did not end well.
    Failures,
    /// How often two held one lock at once.
    Violations,
}

impl Metric {
    const ALL: [Self; 30] = [
        Self::P50,
        Self::P99,
        Self::P50Healthy,
        Self::P99Healthy,
        Self::Recovery,
        Self::PerSecond,
        Self::Jain,
        Self::LeastShare,
        Self::LongestWait,
        Self::Share,
        Self::Commands,
        Self::Sent,
        Self::WaiterCommands,
        Self::Reads,
        Self::FirstLock,
        Self::FirstLockBlackHoled,
        Self::FirstLockRatio,
        Self::Processor,
        Self::Servers,
        Self::Together,
        Self::Allocations,
        Self::Allocated,
        Self::Lost,
        Self::Memory,
        Self::CommandsPerSecond,
        Self::CommandsPerRead,
        Self::NoQuorum,
        Self::FalselyHeld,
        Self::Failures,
        Self::Violations,
    ];

    /// The name in files.
    pub(crate) fn key(self) -> &'static str {
        self.names().0
    }

    /// The name at the head of a column.
    pub(crate) fn title(self) -> &'static str {
        self.names().1
    }

    /// Whether a multiple of another client's figure is meaningful.
    pub(crate) fn is_relative(self) -> bool {
        matches!(
            self,
            Self::P50
                | Self::P99
                | Self::PerSecond
                | Self::Processor
                | Self::Servers
                | Self::Together
                | Self::Allocations
                | Self::Allocated
        )
    }

    /// Whether a column of zeros may be left out.
    pub(crate) fn is_trouble(self) -> bool {
        matches!(self, Self::NoQuorum | Self::FalselyHeld | Self::Failures | Self::Violations)
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::P50 => ("p50_us", "p50 µs"),
            Self::P99 => ("p99_us", "p99 µs"),
            Self::P50Healthy => ("p50_by_healthy", "p50 x healthy"),
            Self::P99Healthy => ("p99_by_healthy", "p99 x healthy"),
            Self::Recovery => ("recovery_ms", "recovery ms"),
            Self::PerSecond => ("per_second", "per second"),
            Self::Jain => ("jain", "Jain"),
            Self::LeastShare => ("least_share", "least share"),
            Self::LongestWait => ("longest_wait_ms", "longest wait ms"),
            Self::Share => ("share_of_single_task", "share of the single task"),
            Self::Sent => ("commands_sent_per_turn", "commands sent"),
            Self::WaiterCommands => ("waiter_commands_per_second", "commands/s a waiter"),
            Self::Commands => ("commands_per_lock_and_node", "commands"),
            Self::Reads => ("reads_per_lock_and_node", "reads"),
            Self::FirstLock => ("first_lock_ms", "first lock ms"),
            Self::FirstLockBlackHoled => ("first_lock_black_holed_ms", "one black-holed ms"),
            Self::FirstLockRatio => ("first_lock_by_healthy", "x healthy"),
            Self::Processor => ("processor_us", "processor µs"),
            Self::Servers => ("servers_us", "servers µs"),
            Self::Together => ("together_us", "together µs"),
            Self::Allocations => ("allocations", "allocations"),
            Self::Allocated => ("allocated_bytes", "bytes"),
            Self::Lost => ("lost", "lost"),
            Self::Memory => ("bytes_per_lock", "bytes a lock"),
            Self::CommandsPerSecond => ("commands_per_second", "commands per second"),
            Self::CommandsPerRead => ("commands_per_read", "commands per read"),
            Self::NoQuorum => ("no_quorum", "no quorum"),
            Self::FalselyHeld => ("falsely_held", "falsely held"),
            Self::Failures => ("failures", "failures"),
            Self::Violations => ("violations", "violations"),
        }
    }

    /// All, in the order of their columns.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }
}

/// The figures of one client in one round.
pub(crate) type Sample = Vec<(Metric, f64)>;
