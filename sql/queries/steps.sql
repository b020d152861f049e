-- The peak of each annotated step on each rank.
SELECT job, rank, device, step, name, end_allocated, peak_active
FROM steps
WHERE step IS NOT NULL
ORDER BY job, rank, device, step, name
