interface Panel {
  readonly title: string
  readonly unit: 's' | 'reqps' | 'bytes' | 'percentunit' | 'short' | 'none'
  readonly query: string
  /** The label that names a line. */
  readonly legend: string
}

interface Dashboard {
  readonly name: string
  readonly title: string
  readonly panels: readonly Panel[]
}

const EVERY = '$__rate_interval'
const rate = (series: string, by: string) => `sum by (${by}) (rate(${series}[${EVERY}]))`
const quantile = (histogram: string, by: string) =>
  `histogram_quantile(0.95, sum by (le, ${by}) (rate(${histogram}_bucket[${EVERY}])))`
const lines = (labels: string) =>
  labels
    .split(', ')
    .map((label) => `{{${label}}}`)
    .join(' ')

const panel = (title: string, unit: Panel['unit'], query: string, by = ''): Panel => ({
  title,
  unit,
  query,
  legend: by === '' ? title : lines(by),
})
const rates = (title: string, series: string, by: string) => panel(title, 'reqps', rate(series, by), by)
const slowest = (title: string, histogram: string, by: string) =>
  panel(`${title}, 95 % take at most`, 's', quantile(histogram, by), by)
const sums = (title: string, series: string, by: string, bound = '') =>
  panel(title, 'short', `sum by (${by}) (${series})${bound}`, by)

const server = 'mcp_server_operation_duration_seconds'
const client = 'mcp_client_operation_duration_seconds'
const request = 'portico_registry_request_duration_seconds'
const statement = 'db_client_operation_duration_seconds'
const OPERATION = 'db_system_name, db_operation_name'
const TOOL = 'portico_backend, gen_ai_tool_name'
const BACKEND = 'portico_backend'
const SOURCE = 'portico_source'
const POD = 'job, instance'

const processPanels: readonly Panel[] = [
  panel('Memory', 'bytes', 'process_memory_usage_bytes', POD),
  panel('CPU', 'none', rate('process_cpu_time_seconds_total', POD), POD),
  panel('Event loop, 99 % are not later than', 's', 'nodejs_eventloop_delay_p99_seconds', POD),
]

const gateway: Dashboard = {
  name: 'gateway',
  title: 'Portico gateways',
  panels: [
    rates('Requests', `${server}_count`, 'mcp_method_name'),
    rates('Requests that fail', `${server}_count{error_type!=""}`, 'error_type'),
    slowest('Requests', server, 'mcp_method_name'),
    rates('Requests to backends', `${client}_count`, BACKEND),
    rates('Requests to backends that fail', `${client}_count{error_type!=""}`, `${BACKEND}, error_type`),
    slowest('Backends', client, BACKEND),
    panel('Tools', 'reqps', `topk(10, ${rate('portico_tool_calls_total', TOOL)})`, TOOL),
    rates('Decisions of policies', 'portico_policy_decisions_total', 'portico_action, portico_result'),
    sums('States of backends', 'portico_backend_health', `${BACKEND}, portico_state`, ' > 0'),
    sums('Circuits that are not closed', 'portico_backend_circuit{portico_state!="closed"}', BACKEND),
    panel('Sessions', 'short', 'sum(portico_sessions)'),
    sums('Streams', 'portico_streams', 'portico_stream'),
    panel('Calls in flight', 'short', 'sum(portico_calls_active)'),
    panel('Memory that callers hold', 'percentunit', 'portico_memory_held_bytes / portico_memory_limit_bytes', POD),
    ...processPanels,
  ],
}

const registry: Dashboard = {
  name: 'registry',
  title: 'Portico registries',
  panels: [
    rates('Requests', `${request}_count`, 'portico_operation'),
    rates('Requests that fail', `${request}_count{error_type!=""}`, 'error_type'),
    slowest('Requests', request, 'portico_operation'),
    sums('Entries of sources', 'portico_source_entries', `${SOURCE}, portico_entry_type`),
    panel('Since the last good sync', 's', 'time() - portico_source_last_success_timestamp_seconds', SOURCE),
    panel('Syncs that failed in a row', 'short', 'portico_source_failures', SOURCE),
    rates('Syncs', 'portico_sync_duration_seconds_count', `${SOURCE}, error_type`),
    panel('Database', 'short', 'portico_store_up', POD),
    rates('Statements', `${statement}_count`, `${OPERATION}, error_type`),
    slowest('Statements', statement, OPERATION),
    ...processPanels,
  ],
}

const changedExpression = (config: string) =>
  `max by (kind) (portico_operator_config_changed_timestamp_seconds{config="${config}"})`

const operator: Dashboard = {
  name: 'operator',
  title: 'Portico operator',
  panels: [
    sums('Objects', 'portico_operator_objects', 'kind, ready'),
    sums('Problems', 'portico_operator_problems', 'kind, reason, severity'),
    rates('Rollouts', 'portico_operator_rollouts_total', 'kind, cause'),
    panel('Since a config changed', 's', `time() - ${changedExpression('newest')}`, 'kind'),
    panel('Since the oldest config changed', 's', `time() - ${changedExpression('oldest')}`, 'kind'),
    rates('Reconciles', 'portico_operator_reconciles_total', 'kind, result'),
    slowest('Reconciles', 'portico_operator_reconcile_duration_seconds', 'kind'),
    panel('Keys that wait', 'short', 'portico_operator_queue_depth', POD),
    panel('Keys that wait for a retry', 'short', 'portico_operator_queue_delayed', POD),
    rates('Requests to the API server', 'portico_operator_api_request_duration_seconds_count', 'verb, code'),
    slowest('Requests to the API server', 'portico_operator_api_request_duration_seconds', 'verb'),
    rates('Watches that fail', 'portico_operator_watch_failures_total', 'watch'),
    rates('Reviews at admission', 'portico_operator_admission_reviews_total', 'kind, outcome'),
    panel('Leads', 'short', 'portico_operator_leading', POD),
    ...processPanels,
  ],
}

export const dashboards: readonly Dashboard[] = [gateway, registry, operator]

const WIDTH = 8
const HEIGHT = 7
const IN_A_ROW = 3
const datasource = { type: 'prometheus', uid: `\${datasource}` }

/** Returns a dashboard in Grafana's import format. */
export function formatDashboard({ name, title, panels }: Dashboard): string {
  const dashboard = {
    uid: `portico-${name}`,
    title,
    tags: ['portico'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: { list: [{ name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' }] },
    panels: panels.map((it, index) => ({
      id: index + 1,
      type: 'timeseries',
      title: it.title,
      datasource,
      gridPos: {
        x: (index % IN_A_ROW) * WIDTH,
        y: Math.floor(index / IN_A_ROW) * HEIGHT,
        w: WIDTH,
        h: HEIGHT,
      },
      fieldConfig: { defaults: { unit: it.unit, min: 0 }, overrides: [] },
      targets: [{ refId: 'A', datasource, expr: it.query, legendFormat: it.legend }],
    })),
  }
  return `${JSON.stringify(dashboard, undefined, 2)}\n`
}
