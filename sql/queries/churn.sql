-- Which lines allocate most over the trace, on all ranks together.
SELECT job, site, sum(blocks) AS allocations, sum(bytes) AS bytes, count(DISTINCT rank) AS ranks
FROM sites
WHERE moment = 'trace'
GROUP BY job, site
ORDER BY bytes DESC, job, site
