-- Which lines hold the memory at the peaks, on how many ranks, and how evenly.
SELECT job, site, count(*) AS ranks, min(bytes) AS least, CAST(median(CAST(bytes AS BIGINT)) AS BIGINT) AS median,
       max(bytes) AS most, sum(bytes) AS total
FROM (
  SELECT job, rank, site, sum(bytes) AS bytes FROM sites WHERE moment = 'peak' GROUP BY job, rank, site
)
GROUP BY job, site
ORDER BY most DESC, job, site
