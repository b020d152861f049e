//! Every query that has a name, on snapshots, on a dataset and on a cluster; and queries against known answers.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ballista::prelude::SessionContextExt;
use ballista_core::serde::BallistaCodec;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use oomscope::analysis::fleet::RankFile;
use oomscope::cli::files;
use oomscope::export::dataset::{Content, Dataset, JobRank};
use oomscope::export::tables::Source;
use oomscope::history::History;
use oomscope::snapshot::{self, LoadOptions, load};
use oomscope_sql::queries::QUERIES;
use oomscope_sql::{config, dataset, embedded, snapshots};

const JOB: &str = "ranks16";

fn files_of_job() -> Vec<RankFile> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(JOB);
    files::rank_files(&[directory], None).unwrap().0
}

/// The dataset of the job, made once.
fn tables() -> &'static Path {
    static TABLES: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, root) = TABLES.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tables");
        let dataset = Dataset::new(&root);
        for file in files_of_job() {
            let path = Path::new(&file.file);
            let snapshot = load(&snapshot::Source::from_arg(path), &LoadOptions::default()).unwrap();
            let rules = &snapshot.settings.rules;
            let histories: Vec<_> =
                snapshot.devices.iter().map(|device| History::new(&snapshot, device, rules)).collect();
            let rank = JobRank { job: JOB.to_owned(), rank: file.rank.into() };
            let source = Source::new(&snapshot, &histories);
            dataset.write(&rank, &source, &file, Content::of(path).unwrap(), false).unwrap();
        }
        (directory, root)
    });
    root
}

async fn answer(context: &SessionContext, sql: &str) -> String {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let batches = frame.collect().await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn on_snapshots() -> SessionContext {
    let context = embedded();
    snapshots::register(&context, JOB, &files_of_job()).unwrap();
    context
}

async fn on_tables() -> SessionContext {
    let context = embedded();
    dataset::register(&context, tables()).unwrap();
    context
}

/// A scheduler and two executors on this machine.
async fn on_cluster() -> SessionContext {
    let address = ballista_scheduler::standalone::new_standalone_scheduler().await.unwrap();
    let url = format!("http://localhost:{}", address.port());
    for _ in 0..2 {
        let scheduler = loop {
            match SchedulerGrpcClient::connect(url.clone()).await {
                Ok(scheduler) => break scheduler,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        };
        ballista_executor::new_standalone_executor(scheduler, 2, BallistaCodec::default()).await.unwrap();
    }
    let state = SessionStateBuilder::new().with_config(config()).with_default_features().build();
    let url = format!("df://localhost:{}", address.port());
    let context = SessionContext::remote_with_state(&url, state).await.unwrap();
    dataset::register(&context, tables()).unwrap();
    context
}

#[tokio::test(flavor = "multi_thread")]
async fn named_queries_agree_on_snapshots_tables_and_a_cluster() {
    let (snapshots, tables, cluster) = (on_snapshots().await, on_tables().await, on_cluster().await);
    for query in QUERIES {
        let expected = answer(&snapshots, query.sql).await;
        assert_eq!(answer(&tables, query.sql).await, expected, "{} on tables", query.name);
        assert_eq!(answer(&cluster, query.sql).await, expected, "{} on the cluster", query.name);
        assert!(!query.about().is_empty() && query.sql.contains("ORDER BY"), "{}", query.name);
    }
}

/// `job.json` tells who leaks where and who died.
#[tokio::test(flavor = "multi_thread")]
async fn named_queries_tell_the_truth() {
    let context = on_snapshots().await;
    let named = |name: &str| QUERIES.into_iter().find(|query| query.name == name).unwrap().sql;
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();

    let ooms = lines(answer(&context, named("first-oom")).await);
    assert_eq!(ooms.len(), 5, "a heading and one failure");
    assert!(ooms[3].contains("| ranks16 | 11   | 3 "), "{}", ooms[3]);

    let odd = answer(&context, named("odd-sites")).await;
    let leak = odd.lines().find(|line| line.contains("pretrain.py:55")).expect("the leaking line is on one rank only");
    assert!(leak.contains("| 1     | 16        | 5 "), "{leak}");

    let peaks =
        answer(&context, "SELECT rank, peak_allocated, peak_reserved FROM devices WHERE rank IN (0, 5, 8)").await;
    for figure in ["248904704", "304087040", "266206208", "308281344", "745551872", "2027945984"] {
        assert!(peaks.contains(figure), "{figure} in\n{peaks}");
    }
    let events = answer(&context, "SELECT count(*) FROM events WHERE rank = 11").await;
    assert!(events.contains("2121"), "{events}");
}

/// Sums of tables equal the counters, by SQL.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_sites_sum_to_the_devices_figures() {
    let context = on_tables().await;
    let wrong = "
        SELECT d.rank FROM devices d
        JOIN (SELECT rank, sum(CASE WHEN state = 'active_allocated' THEN size ELSE 0 END) AS allocated
              FROM blocks GROUP BY rank) b ON b.rank = d.rank
        JOIN (SELECT rank, sum(bytes) AS active FROM sites WHERE moment = 'end' GROUP BY rank) s ON s.rank = d.rank
        WHERE b.allocated <> d.allocated OR s.active <> d.active";
    assert_eq!(answer(&context, wrong).await.lines().filter(|line| line.contains("| ")).count(), 0);
    let ranks = answer(&context, "SELECT count(DISTINCT rank) AS n FROM blocks").await;
    assert!(ranks.contains("16"), "{ranks}");
}
