import { BlockList, isIPv4, isIPv6 } from 'node:net'
import type { networkPeers } from '../../../crds/settings/pod/network-peer.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { buildSelector, child, childName, type Workload } from '../object/object.ts'
import { type Network, networkProblem, parseNetwork } from './network.ts'
import type { Listeners } from './service.ts'

interface Traffic {
  readonly isShut: boolean
  readonly public?: NetworkPeers | undefined
  readonly admin?: readonly AdminPeer[] | undefined
  readonly outbound?: Outbound | undefined
}

/** The outbound traffic of pods. A destination must match `networks` and `ports`; an empty list matches all. */
export type Outbound =
  | 'anything'
  | 'nothing'
  | { readonly networks: readonly string[]; readonly ports: readonly number[] }

const DNS = {
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
}

export type NetworkPeers = Static<typeof networkPeers>

interface PeerProblem {
  /** JSON pointer into the object that has the peers. */
  readonly pointer: string
  readonly message: string
}

/**
 * Renders the policy that lets traffic in to our own listeners only: an MCP server's own port would bypass
 * authentication. The admin listener, which does not authenticate, is open to the operator and to `traffic.admin`. A
 * NetworkPolicy never keeps out the kubelet of the node. Returns undefined if there is nothing to restrict.
 */
export function renderNetworkPolicy(
  workload: Workload,
  group: string,
  listeners: Listeners,
  traffic: Traffic,
): KubernetesObject | undefined {
  const { isShut, admin = [operatorPeer()], public: callers, outbound } = traffic
  if (!isShut && outbound === undefined) return undefined
  const name = childName(workload.kind, workload.metadata.name)
  return child(
    workload,
    group,
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', name },
    {
      spec: {
        podSelector: { matchLabels: buildSelector(workload) },
        policyTypes: [...(isShut ? ['Ingress'] : []), ...(outbound === undefined ? [] : ['Egress'])],
        ...(isShut && {
          ingress: [
            { ...(callers && { from: callers }), ports: [{ protocol: 'TCP', port: listeners.listen }] },
            { from: admin, ports: [{ protocol: 'TCP', port: listeners.admin }] },
          ],
        }),
        ...(outbound !== undefined && { egress: egressRules(outbound) }),
      },
    },
  )
}

/** Returns the network of an address or a network in the form of a NetworkPolicy. */
export const outboundNetwork = (text: string): string =>
  isIPv4(text) ? `${text}/32` : isIPv6(text) ? `${text}/128` : text

/** Returns why a NetworkPolicy can't contain what a text names; undefined if it can. */
export function outboundProblem(text: string): string | undefined {
  const network = outboundNetwork(text)
  return parseNetwork(network) === undefined
    ? 'must be an address or a network such as 10.0.0.0/8: a NetworkPolicy can’t use names'
    : networkProblem(network)
}

function egressRules(outbound: Outbound): readonly object[] {
  if (outbound === 'anything') return [{}]
  if (outbound === 'nothing') return []
  const { networks, ports } = outbound
  const listed = {
    ...(networks.length > 0 && { to: networks.map((cidr) => ({ ipBlock: { cidr } })) }),
    ...(ports.length > 0 && { ports: ports.map((port) => ({ protocol: 'TCP', port })) }),
  }
  return [DNS, listed]
}

/** Tells whether a network lies in another and is smaller, as the API server requires for `except`. */
function isPartOf(inner: string, outer: Network): boolean {
  const small = parseNetwork(inner)
  if (small?.family !== outer.family || small.length <= outer.length) return false
  const list = new BlockList()
  list.addSubnet(outer.address, outer.length, outer.family)
  return list.check(small.address, small.family)
}

/** Returns what the API server would refuse of peers that the schema accepts. */
export const peerProblems = (peers: NetworkPeers = []): readonly PeerProblem[] =>
  peers.flatMap(({ ipBlock }, index) => {
    if (!ipBlock) return []
    const { cidr, except = [] } = ipBlock
    const at = `/spec/networkPolicy/ingressFrom/${index}/ipBlock`
    const problem = networkProblem(cidr)
    if (problem !== undefined) return [{ pointer: `${at}/cidr`, message: problem }]
    return except.flatMap((part, position) => {
      const message = isPartOf(part, parseNetwork(cidr) as Network) ? networkProblem(part) : `must be a part of ${cidr}`
      return message === undefined ? [] : [{ pointer: `${at}/except/${position}`, message }]
    })
  })

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
