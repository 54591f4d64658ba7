/** Alerts, as rules of Prometheus. */

interface Alert {
  readonly alert: string
  readonly expr: string
  /** How long it must hold. */
  readonly for: string
  readonly severity: 'warning' | 'critical'
  readonly summary: string
}

const server = 'mcp_server_operation_duration_seconds_count'
const FAILED = 'error_type=~"internal|unavailable|backend_.*"'

const alerts: readonly Alert[] = [
  {
    alert: 'PorticoBackendUnhealthy',
    expr: 'max by (namespace, job, portico_backend, portico_state) (portico_backend_health{portico_state=~"unhealthy|unauthenticated"}) == 1',
    for: '5m',
    severity: 'warning',
    summary: 'Backend {{ $labels.portico_backend }} is {{ $labels.portico_state }}.',
  },
  {
    alert: 'PorticoCircuitOpen',
    expr: 'max by (namespace, job, portico_backend) (portico_backend_circuit{portico_state="open"}) == 1',
    for: '2m',
    severity: 'warning',
    summary: 'Calls of backend {{ $labels.portico_backend }} are refused, for it has failed too often.',
  },
  {
    alert: 'PorticoRequestsFail',
    expr: `sum by (namespace, job) (rate(${server}{${FAILED}}[5m])) / sum by (namespace, job) (rate(${server}[5m])) > 0.1`,
    for: '10m',
    severity: 'critical',
    summary: 'More than a tenth of the requests fail by no fault of their callers.',
  },
  {
    alert: 'PorticoConfigRefused',
    expr: 'max by (namespace, job, instance) (portico_config_refused) == 1',
    for: '5m',
    severity: 'warning',
    summary: 'A newer configuration is refused; the one before serves. /status says why.',
  },
  {
    alert: 'PorticoMemoryNearLimit',
    expr: 'portico_memory_held_bytes / portico_memory_limit_bytes > 0.9',
    for: '5m',
    severity: 'warning',
    summary: 'Callers hold nearly as much memory as they may; more is refused.',
  },
  {
    alert: 'PorticoSessionStorageDown',
    expr: 'portico_session_storage_up == 0',
    for: '5m',
    severity: 'critical',
    summary: 'The configured session storage does not work.',
  },
  {
    alert: 'PorticoSourceNotSynced',
    expr: 'max by (namespace, job, portico_source) (portico_source_failures) >= 3',
    for: '10m',
    severity: 'warning',
    summary: 'Source {{ $labels.portico_source }} can’t be synced; what it brought before is served.',
  },
  {
    alert: 'PorticoRegistryStoreDown',
    expr: 'portico_store_up == 0',
    for: '2m',
    severity: 'critical',
    summary: 'The registry’s database can’t be used.',
  },
  {
    alert: 'PorticoOperatorWithoutLeader',
    expr: 'max(portico_operator_leading) == 0',
    for: '2m',
    severity: 'critical',
    summary: 'No replica of the operator holds the lease: nothing is reconciled.',
  },
  {
    alert: 'PorticoObjectsNotReady',
    expr: 'max by (kind) (portico_operator_objects{ready="False"}) > 0',
    for: '15m',
    severity: 'warning',
    summary: '{{ $value }} of kind {{ $labels.kind }} are not ready.',
  },
  {
    alert: 'PorticoReconcilesFail',
    expr: 'sum by (kind) (rate(portico_operator_reconciles_total{result="error"}[10m])) > 0.1',
    for: '15m',
    severity: 'warning',
    summary: 'Reconciles of kind {{ $labels.kind }} fail again and again.',
  },
]

/** Groups of rules, as Prometheus takes them. */
export const ruleGroups = [
  {
    name: 'portico',
    rules: alerts.map(({ alert, expr, for: lasting, severity, summary }) => ({
      alert,
      expr,
      for: lasting,
      labels: { severity },
      annotations: { summary },
    })),
  },
]
