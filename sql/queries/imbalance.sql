-- How far each rank's peak lies above or below the median of its job.
WITH peaks AS (
  SELECT job, rank, max(coalesce(peak_allocated, allocated)) AS peak FROM devices GROUP BY job, rank
), usual AS (
  SELECT job, median(CAST(peak AS BIGINT)) AS median_peak FROM peaks GROUP BY job
)
SELECT peaks.job, peaks.rank, peaks.peak, usual.median_peak,
       CAST(peaks.peak AS BIGINT) - usual.median_peak AS above_median
FROM peaks JOIN usual ON peaks.job = usual.job
ORDER BY above_median DESC, peaks.job, peaks.rank
