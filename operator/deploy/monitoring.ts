import { kinds } from '../../crds/index.ts'
import { OPERATOR_NAMESPACE } from '../render/network/network.ts'
import { canonicalYaml } from '../render/object/canonical.ts'
import { dataPlaneContainerName } from '../render/object/object.ts'
import { ruleGroups } from './alerts.ts'
import { dashboardJson, dashboards } from './dashboards.ts'
import { HEADER } from './kustomize.ts'
import { labels } from './objects.ts'

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

/** Scrapes the pods of all workloads that serve metrics, in all namespaces. */
const dataPlane = {
  apiVersion: MONITORING,
  kind: 'PodMonitor',
  metadata: metadata('portico-workloads'),
  spec: {
    namespaceSelector: { any: true },
    selector: { matchLabels: { 'app.kubernetes.io/managed-by': 'portico' } },
    podMetricsEndpoints: [{ port: 'admin', path: '/metrics', relabelings: [ofDataPlane] }],
  },
}
const operator = {
  apiVersion: MONITORING,
  kind: 'PodMonitor',
  metadata: metadata('portico-operator'),
  spec: {
    // There may be several installations.
    namespaceSelector: { any: true },
    selector: { matchLabels: labels },
    podMetricsEndpoints: [{ port: 'metrics', path: '/metrics' }],
  },
}
const rules = {
  apiVersion: MONITORING,
  kind: 'PrometheusRule',
  metadata: metadata('portico'),
  spec: { groups: ruleGroups },
}

/** Returns the files that kustomize adds for the Prometheus operator, by path below operator/deploy/monitoring. */
export function monitoringFiles(): Map<string, string> {
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
    ['pod-monitors.yaml', yaml(dataPlane, operator)],
    ['rules.yaml', yaml(rules)],
    ...dashboards.map((dashboard) => [`dashboard-${dashboard.name}.json`, dashboardJson(dashboard)] as const),
  ])
}
