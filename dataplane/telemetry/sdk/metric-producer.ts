import { type HrTime, ValueType } from '@opentelemetry/api'
import { millisToHrTime } from '@opentelemetry/core'
import { emptyResource } from '@opentelemetry/resources'
import { AggregationTemporality, DataPointType, type MetricData, type MetricProducer } from '@opentelemetry/sdk-metrics'
import type { Family } from '../metrics/family.ts'
import type { Metrics } from '../metrics/metrics.ts'

/** Hands all metrics to a reader of the SDK, which sends them (OpenTelemetry SDK specification, MetricProducer). */
export function metricProducer(metrics: Metrics, version: string): MetricProducer {
  return {
    async collect() {
      const endTime = millisToHrTime(Date.now())
      const scope = { name: 'portico', version }
      const scopeMetrics = [{ scope, metrics: metrics.read().map((family) => metricDataOf(family, endTime)) }]
      return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] }
    },
  }
}

function metricDataOf(family: Family, endTime: HrTime): MetricData {
  const { name, description, unit, type } = family.metric
  const common = {
    descriptor: { name, description, unit, valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  }
  if ('series' in family) {
    const boundaries = [...family.bounds]
    const dataPoints = family.series.map(({ labels, startedAt, count, sum, buckets }) => ({
      startTime: millisToHrTime(startedAt),
      endTime,
      attributes: labels,
      value: { count, sum, buckets: { boundaries, counts: [...buckets] } },
    }))
    return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints }
  }
  const dataPoints = family.points.map(({ labels, value, startedAt }) => ({
    startTime: millisToHrTime(startedAt),
    endTime,
    attributes: labels,
    value,
  }))
  if (type === 'gauge') return { ...common, dataPointType: DataPointType.GAUGE, dataPoints }
  return { ...common, dataPointType: DataPointType.SUM, dataPoints, isMonotonic: true }
}
