-- Which lines grow from step to step, and on how many ranks.
SELECT job, site, count(*) AS ranks, min(rank) AS first_rank,
       CAST(median(CAST(bytes_per_step AS BIGINT)) AS BIGINT) AS bytes_per_step, max(live_bytes) AS most_live,
       min(since_step) AS since_step, min(kind) AS kind
FROM leaks
GROUP BY job, site
ORDER BY bytes_per_step DESC, job, site
