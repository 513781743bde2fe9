#![deny(dead_code, unused, unreachable_code)]

mod private {
    use redlock_core::{LockError, redlock};

    #[redlock(resource = "a")]
    async fn never_called() -> Result<(), LockError> {
        Ok(())
    }

    #[redlock(resource = "a", lock = guard)]
    pub async fn unused(
        argument: u64,
        mut changed: u64,
        (left, _right): (u64, u64),
    ) -> Result<u64, LockError> {
        let variable = 1;
        std::fs::remove_file("x");
        Ok(changed)
    }

    #[redlock(resource = "{used}")]
    pub async fn unreachable(used: u64) -> Result<(), LockError> {
        return Ok(());
        println!("never");
    }
}

pub use private::{unreachable, unused};

fn main() {}
