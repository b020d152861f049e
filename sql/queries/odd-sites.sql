-- Lines that hold memory on some ranks only, at the peaks: a leak, a stage of its own, or a rank that does more.
WITH held AS (
  SELECT job, rank, site, sum(bytes) AS bytes FROM sites WHERE moment = 'peak' GROUP BY job, rank, site
), everyone AS (
  SELECT job, count(DISTINCT rank) AS all_ranks FROM devices GROUP BY job
), by_site AS (
  SELECT job, site, count(*) AS ranks, min(rank) AS first_rank, max(bytes) AS most FROM held GROUP BY job, site
)
SELECT by_site.job, by_site.site, by_site.ranks, everyone.all_ranks, by_site.first_rank, by_site.most
FROM by_site JOIN everyone ON by_site.job = everyone.job
WHERE by_site.ranks < everyone.all_ranks
ORDER BY by_site.ranks, by_site.most DESC, by_site.job, by_site.site
