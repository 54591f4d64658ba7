import { networkProblem, parseNetwork } from './network.ts'

/** A peer of a NetworkPolicy that may reach the admin listeners of pods. */
export type AdminPeer =
  | { readonly ipBlock: { readonly cidr: string } }
  | { readonly namespaceSelector: Selector; readonly podSelector?: Selector }

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>
}

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const KEY = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/
const VALUE = /^([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/

/** The namespace and the label of the operator's pods, as operator/deploy installs them. */
export const OPERATOR_NAMESPACE = 'portico-system'
export const OPERATOR_NAME = 'portico-operator'
/** Returns the name of an installation's Lease, roles and bindings. Several installations may share a namespace. */
export const operatorName = (installation: string | undefined): string =>
  installation === undefined ? OPERATOR_NAME : `${OPERATOR_NAME}-for-${installation}`
/** The Role for the operator's own namespace. */
export const OPERATOR_LEASE_ROLE = `${OPERATOR_NAME}-lease`

/** The Secret, in the operator's namespace, with the key that detects changed values of Secrets. */
export const OPERATOR_REVISIONS = `${OPERATOR_NAME}-revisions`

/** Service and Secret of the operator's admission webhook, in its namespace. */
export const ADMISSION_NAME = `${OPERATOR_NAME}-admission`
/** Returns the name of the cluster-scoped ValidatingWebhookConfiguration and its ClusterRole, with the namespace. */
export const admissionConfiguration = (namespace: string): string => `${OPERATOR_NAME}.${namespace}`
/** Returns the name of the webhook in it: a domain of three labels or more. */
export const webhookName = (group: string): string => `warnings.${group}`

const inNamespace = (namespace: string, labels?: Readonly<Record<string, string>>): AdminPeer => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
  ...(labels && { podSelector: { matchLabels: labels } }),
})

export const operatorPeer = (namespace = OPERATOR_NAMESPACE): AdminPeer =>
  inNamespace(namespace, { 'app.kubernetes.io/name': OPERATOR_NAME })

function parseLabels(text: string): Readonly<Record<string, string>> | undefined {
  const pairs = text.split(',').map((pair) => pair.split('='))
  const sound = pairs.every(
    ([key = '', value = '', ...more]) => KEY.test(key) && VALUE.test(value) && more.length === 0,
  )
  return sound && pairs.every((pair) => pair.length === 2) ? Object.fromEntries(pairs) : undefined
}

/** Parses `NAMESPACE`, `NAMESPACE/label=value,…` or a CIDR. Returns undefined for any other text. */
export function parseAdminPeer(text: string): AdminPeer | undefined {
  if (parseNetwork(text) !== undefined)
    return networkProblem(text) === undefined ? { ipBlock: { cidr: text } } : undefined
  const slash = text.indexOf('/')
  const namespace = slash < 0 ? text : text.slice(0, slash)
  if (!LABEL.test(namespace)) return undefined
  if (slash < 0) return inNamespace(namespace)
  const labels = parseLabels(text.slice(slash + 1))
  return labels && inNamespace(namespace, labels)
}
