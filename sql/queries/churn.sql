-- Which lines allocate most over the trace, on all ranks together.
SELECT job, site, count(*) AS allocations, sum(bytes) AS bytes, count(DISTINCT rank) AS ranks
FROM events
WHERE action = 'alloc'
GROUP BY job, site
ORDER BY bytes DESC, job, site
