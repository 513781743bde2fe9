fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(10);
    #[cfg(redlock_sim)]
    for seed in 0..n {
        let r = redlock_tests::sim::run_seed(seed, std::env::args().nth(2).is_some());
        for l in r.timeline {
            println!("{l}");
        }
        println!("{seed} {:x} {:?}", r.hash, r.violations);
    }
}
