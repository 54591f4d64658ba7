/** The alerts, dashboards and PodMonitors for the Prometheus operator. */
import { kinds } from '../../crds/index.ts'
import { OPERATOR_NAMESPACE } from '../render/network/network.ts'
import { canonicalYaml } from '../render/object/canonical.ts'
import { dataPlaneContainerName } from '../render/object/object.ts'
import { dashboards, formatDashboard } from './dashboards.ts'
import { HEADER } from './kustomize.ts'
import { labels } from './objects.ts'

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly severity: 'info' | 'warning' | 'critical'
  readonly summary: string
}

const server = 'mcp_server_operation_duration_seconds_count'
const FAILED = 'error_type=~"internal|unavailable|backend_.*"'

/** Every replica reports the same objects, and each installation those that it manages. */
const problems = (severity: string, by = 'namespace, kind, condition, reason') =>
  `max by (${by}) (portico_operator_problems{severity="${severity}"})`
const ALL_OBJECTS = 'sum by (namespace, kind) (max by (namespace, kind, ready) (portico_operator_objects))'
const ROLLOUTS = 'portico_operator_rollouts_total'

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
    summary: 'Calls to backend {{ $labels.portico_backend }} are refused: its circuit breaker is open.',
  },
  {
    alert: 'PorticoRequestsFail',
    expr: `sum by (namespace, job) (rate(${server}{${FAILED}}[5m])) / sum by (namespace, job) (rate(${server}[5m])) > 0.1`,
    for: '10m',
    severity: 'critical',
    summary: 'More than a tenth of the requests fail, and their callers are not the cause.',
  },
  {
    alert: 'PorticoConfigRefused',
    expr: 'max by (namespace, job, instance) (portico_config_refused) == 1',
    for: '5m',
    severity: 'warning',
    summary: 'A newer configuration is refused; the previous one stays in force. /status has the reason.',
  },
  {
    alert: 'PorticoMemoryNearLimit',
    expr: 'portico_memory_held_bytes / portico_memory_limit_bytes > 0.9',
    for: '5m',
    severity: 'warning',
    summary: 'Requests hold more than 90 % of the memory that they may; beyond it, requests are refused.',
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
    summary: 'Source {{ $labels.portico_source }} can’t be synced; the entries of its last sync are served.',
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
    expr: 'max by (namespace) (portico_operator_leading) == 0',
    for: '2m',
    severity: 'critical',
    summary: 'No replica of the operator in {{ $labels.namespace }} holds the lease: nothing is reconciled.',
  },
  {
    alert: 'PorticoObjectsNotReady',
    expr: 'max by (namespace, kind) (portico_operator_objects{ready="False"}) > 0',
    for: '15m',
    severity: 'warning',
    summary: '{{ $value }} of kind {{ $labels.kind }} are not ready.',
  },
  {
    // A problem of one object is its author's concern: the earlier version keeps serving.
    alert: 'PorticoProblemSpreads',
    expr: `(${problems('error', 'namespace, kind, reason')} > 4) / on (namespace, kind) group_left () ${ALL_OBJECTS} > 0.5`,
    for: '10m',
    severity: 'critical',
    summary: 'More than half of kind {{ $labels.kind }} have the same problem: {{ $labels.reason }}.',
  },
  {
    alert: 'PorticoProblems',
    expr: `${problems('error')} > 0`,
    for: '15m',
    severity: 'warning',
    summary:
      '{{ $value }} of kind {{ $labels.kind }} can’t be served in their current form: {{ $labels.condition }}, {{ $labels.reason }}.',
  },
  {
    alert: 'PorticoWarnings',
    expr: `${problems('warning')} > 0`,
    for: '1h',
    severity: 'info',
    summary:
      '{{ $value }} of kind {{ $labels.kind }} are served with a problem: {{ $labels.condition }}, {{ $labels.reason }}.',
  },
  {
    alert: 'PorticoPodTemplatesEdited',
    expr: `sum by (namespace, kind) (increase(${ROLLOUTS}{cause="edit"}[1h])) > 2`,
    for: '5m',
    severity: 'warning',
    summary:
      'Somebody keeps changing pod templates of kind {{ $labels.kind }}; the operator reverts them, and each time pods are replaced.',
  },
  {
    alert: 'PorticoRolloutsRepeat',
    expr: `sum by (namespace, kind) (increase(${ROLLOUTS}[1h])) > 6 * ${ALL_OBJECTS}`,
    for: '15m',
    severity: 'warning',
    summary:
      'The pods of kind {{ $labels.kind }} are replaced more than six times an hour; the rollouts are counted by cause.',
  },
  {
    alert: 'PorticoConfigsKeepChanging',
    expr: 'max by (namespace, kind) (changes(portico_operator_config_changed_timestamp_seconds{config="newest"}[30m])) > 15',
    for: '30m',
    severity: 'warning',
    summary: 'Configs of kind {{ $labels.kind }} change all the time: check whether two writers change the same one.',
  },
  {
    alert: 'PorticoReconcilesFail',
    expr: 'sum by (kind) (rate(portico_operator_reconciles_total{result="error"}[10m])) > 0.1',
    for: '15m',
    severity: 'warning',
    summary: 'Reconciles of kind {{ $labels.kind }} keep failing.',
  },
]

/** Groups of rules in the format of Prometheus. */
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

const MONITORING = 'monitoring.coreos.com/v1'
const metadata = (name: string) => ({
  name,
  namespace: OPERATOR_NAMESPACE,
  labels: { 'app.kubernetes.io/part-of': 'portico' },
})

/** Keeps the ports of our own containers. A user's container in the same pod may have a port of the same name. */
const ofDataPlane = {
  action: 'keep',
  sourceLabels: ['__meta_kubernetes_pod_label_app_kubernetes_io_name', '__meta_kubernetes_pod_container_name'],
  separator: '/',
  regex: Object.values(kinds)
    .filter(({ role }) => role === 'workload')
    .map(({ kind }) => `${kind.toLowerCase()}/${dataPlaneContainerName(kind)}`)
    .sort()
    .join('|'),
}

/** Scrapes the pods with these labels in all namespaces. */
const buildPodMonitor = (name: string, matchLabels: object, endpoint: object) => ({
  apiVersion: MONITORING,
  kind: 'PodMonitor',
  metadata: metadata(name),
  spec: { namespaceSelector: { any: true }, selector: { matchLabels }, podMetricsEndpoints: [endpoint] },
})

/** The pods of all workloads that serve metrics, and those of the operator, of which there may be several. */
const podMonitors = [
  buildPodMonitor(
    'portico-workloads',
    { 'app.kubernetes.io/managed-by': 'portico' },
    { port: 'admin', path: '/metrics', relabelings: [ofDataPlane] },
  ),
  buildPodMonitor('portico-operator', labels, { port: 'metrics', path: '/metrics' }),
]
const rules = {
  apiVersion: MONITORING,
  kind: 'PrometheusRule',
  metadata: metadata('portico'),
  spec: { groups: ruleGroups },
}

/** Returns the files that kustomize adds for the Prometheus operator, by path below operator/deploy/monitoring. */
export function buildMonitoringFiles(): Map<string, string> {
  const yaml = (...documents: readonly object[]) => HEADER + documents.map(canonicalYaml).join('---\n')
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: ['pod-monitors.yaml', 'rules.yaml'],
    // Grafana’s sidecar reads ConfigMaps with this label.
    configMapGenerator: dashboards.map(({ name }) => ({
      name: `portico-dashboard-${name}`,
      namespace: OPERATOR_NAMESPACE,
      files: [`portico-${name}.json=dashboard-${name}.json`],
      options: { labels: { grafana_dashboard: '1' }, disableNameSuffixHash: true },
    })),
  }
  return new Map([
    ['kustomization.yaml', yaml(kustomization)],
    ['pod-monitors.yaml', yaml(...podMonitors)],
    ['rules.yaml', yaml(rules)],
    ...dashboards.map((dashboard) => [`dashboard-${dashboard.name}.json`, formatDashboard(dashboard)] as const),
  ])
}
