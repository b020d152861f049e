-- Free blocks at the dump by size, in powers of two: how many pieces the free memory is in.
SELECT job, rank, device, CAST(power(2, floor(log2(size))) AS BIGINT) AS at_least, count(*) AS holes,
       sum(size) AS bytes, max(size) AS largest
FROM blocks
WHERE state = 'inactive' AND size > 0
GROUP BY job, rank, device, CAST(power(2, floor(log2(size))) AS BIGINT)
ORDER BY job, rank, device, at_least DESC
