use oomscope::{
    analysis::{leaks::leaks, sites::*},
    history::History,
    snapshot::*,
};
fn main() {
    for p in std::env::args().skip(1) {
        let Ok(s) = load(&Source::Path(p.clone().into()), &LoadOptions::default()) else {
            println!("{p} ERR");
            continue;
        };
        let si = Sites::new(&s, By::Line);
        for d in &s.devices {
            let h = History::new(&s, d, &s.settings.rules);
            let l = leaks(&h, &si, None);
            println!(
                "{p} dev{} ev{} {} total {} full {:?} {}",
                d.ordinal,
                h.events(),
                l.steps.as_ref().map_or("-".into(), |s| format!(
                    "{} steps {}..{} n={} {}",
                    s.count, s.first, s.last, s.samples, s.source
                )),
                l.bytes_per_step,
                l.full_in_steps,
                l.unknown.clone().unwrap_or_default()
            );
            for (w, x) in l.leaks.iter().map(|x| ("LEAK", x)).chain(l.suspects.iter().map(|x| ("susp", x))) {
                println!(
                    "   {w} {} {} B/step {} blk/step live {} since {} p {:.2e} {:?} from {:?} freed {:?}",
                    x.site,
                    x.bytes_per_step,
                    x.blocks_per_step,
                    x.live_bytes,
                    x.since_step,
                    x.p_value,
                    x.kind,
                    x.called_from,
                    x.freed.as_ref().map(|f| (f.blocks, f.site.clone()))
                );
            }
            for x in l.not_leaks.iter().take(6) {
                println!("      not {} {} {}", x.site, x.bytes, x.why);
            }
            for x in l.many_alike.iter().take(3) {
                println!("      alike {} {}x{}", x.site, x.blocks, x.block_bytes);
            }
        }
    }
}
