import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'
import type { MCPRegistry } from '../../../crds/index.ts'
import type { networkPeers } from '../../../crds/settings/pod/network-peer.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { buildChild, buildLabels, buildSelector, childName, serviceName, type Workload } from '../object/object.ts'

interface Network {
  readonly address: string
  readonly length: number
  readonly family: 'ipv4' | 'ipv6'
}

/** Parses a network. Returns undefined for invalid text: an object may be older than the schema that refuses it. */
function parseNetwork(cidr: string): Network | undefined {
  const [address = '', bits = '', ...more] = cidr.split('/')
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(address) as 0 | 4 | 6]
  if (more.length > 0 || !/^(0|[1-9]\d{0,2})$/.test(bits) || Number(bits) > most) return undefined
  return { address, length: Number(bits), family: isIPv6(address) ? 'ipv6' : 'ipv4' }
}

function parseGroups(address: string): readonly number[] {
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const [before, after] = [head, tail].map((part) => part.split(':').filter((group) => group !== '')) as [
    string[],
    string[],
  ]
  const zeros = new Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16))
}

/** Tells whether an address has bits set beyond its prefix length. */
function hasBitsBehind({ address, length, family }: Network): boolean {
  const [parts, width] = family === 'ipv4' ? [address.split('.').map(Number), 8] : [parseGroups(address), 16]
  return parts.some((part, at) => {
    const behind = Math.min(width, Math.max(0, (at + 1) * width - length))
    return (part & ((1 << behind) - 1)) !== 0
  })
}

const isMapped = ({ address, family }: Network) =>
  family === 'ipv6' &&
  parseGroups(address)
    .slice(0, 6)
    .every((group, at) => group === (at === 5 ? 0xffff : 0))

/**
 * Returns why the API server refuses a network since Kubernetes 1.36 (StrictIPCIDRValidation); undefined if it doesn't.
 */
function findNetworkProblem(cidr: string): string | undefined {
  const network = parseNetwork(cidr)
  if (network === undefined) return 'must be a network such as 10.0.0.0/8'
  if (isMapped(network)) return 'must not hold an IPv4 address in an IPv6 one'
  const whole = network.family === 'ipv4' ? 32 : 128
  if (hasBitsBehind(network))
    return `has bits set after its prefix of ${network.length}: write the network’s first address, or /${whole} for this address alone`
  return undefined
}

export interface ServiceOptions {
  readonly port: number
  readonly portName: 'mcp' | 'http'
  /**
   * A number, since a name could match another container's port: the API server looks in `containers` before native
   * sidecars.
   */
  readonly targetPort: number
  /** `sessionAffinity: ClientIP` keeps a client on one pod: sessions in memory live there. */
  readonly settings: Pick<MCPRegistry['spec'], 'service' | 'serviceType' | 'sessionAffinity'>
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

/** Returns, by JSON pointer, what the API server would refuse of source ranges that the schema accepts. */
export const rangeProblems = ({ loadBalancerSourceRanges = [] }: MCPRegistry['spec']['service'] = {}) =>
  loadBalancerSourceRanges.flatMap((range, index) => {
    const message = findNetworkProblem(range)
    return message === undefined ? [] : [{ pointer: `/spec/service/loadBalancerSourceRanges/${index}`, message }]
  })

export function renderService(workload: Workload, group: string, options: ServiceOptions): KubernetesObject {
  const { port, portName, targetPort, settings } = options
  const { externalTrafficPolicy, loadBalancerSourceRanges, loadBalancerClass, ipFamilyPolicy } = settings.service ?? {}
  return buildChild(
    workload,
    group,
    {
      apiVersion: 'v1',
      kind: 'Service',
      name: serviceName(workload.kind, workload.metadata.name),
      labels: { ...options.labels, ...buildLabels(workload) },
      annotations: options.annotations ?? {},
    },
    {
      spec: {
        type: settings.serviceType,
        selector: buildSelector(workload),
        sessionAffinity: settings.sessionAffinity,
        ...(externalTrafficPolicy === undefined ? {} : { externalTrafficPolicy }),
        ...(loadBalancerSourceRanges === undefined ? {} : { loadBalancerSourceRanges }),
        ...(loadBalancerClass === undefined ? {} : { loadBalancerClass }),
        ...(ipFamilyPolicy === undefined ? {} : { ipFamilyPolicy }),
        ports: [{ name: portName, port, protocol: 'TCP', targetPort, appProtocol: 'http' }],
      },
    },
  )
}

const GATEWAY_API = 'gateway.networking.k8s.io'

/**
 * Renders the HTTPRoute (Gateway API v1) to a workload's Service. The API server's defaults are written out, so that
 * the stored object equals the rendered one.
 */
export function renderHttpRoute(
  workload: Workload,
  group: string,
  { parentRefs, hostnames }: NonNullable<MCPRegistry['spec']['httpRoute']>,
  port: number,
): KubernetesObject {
  const { kind, metadata } = workload
  const backend = { group: '', kind: 'Service', name: serviceName(kind, metadata.name), port, weight: 1 }
  return buildChild(
    workload,
    group,
    { apiVersion: `${GATEWAY_API}/v1`, kind: 'HTTPRoute', name: childName(kind, metadata.name) },
    {
      spec: {
        parentRefs: parentRefs.map(({ name, namespace, sectionName }) => ({
          group: GATEWAY_API,
          kind: 'Gateway',
          name,
          ...(namespace === undefined ? {} : { namespace }),
          ...(sectionName === undefined ? {} : { sectionName }),
        })),
        ...(hostnames?.length ? { hostnames } : {}),
        rules: [{ backendRefs: [backend], matches: [{ path: { type: 'PathPrefix', value: '/' } }] }],
      },
    },
  )
}

/** Ports on which a data plane listens in its pod. */
export interface Listeners {
  readonly listen: number
  readonly admin: number
}

/** The ports in a pod of its own. */
export const gatewayListeners: Listeners = { listen: 4483, admin: 8081 }
export const registryListeners: Listeners = { listen: 8080, admin: 8081 }
/** The ports beside a user's container, chosen to avoid the usual ports. */
export const sidecarListeners: Listeners = { listen: 14_483, admin: 14_081 }

interface Traffic {
  readonly restrictsIngress: boolean
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
  const { restrictsIngress, admin = [operatorPeer()], public: callers, outbound } = traffic
  if (!restrictsIngress && outbound === undefined) return undefined
  const name = childName(workload.kind, workload.metadata.name)
  return buildChild(
    workload,
    group,
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', name },
    {
      spec: {
        podSelector: { matchLabels: buildSelector(workload) },
        policyTypes: [...(restrictsIngress ? ['Ingress'] : []), ...(outbound === undefined ? [] : ['Egress'])],
        ...(restrictsIngress && {
          ingress: [
            { ...(callers && { from: callers }), ports: [{ protocol: 'TCP', port: listeners.listen }] },
            { from: admin, ports: [{ protocol: 'TCP', port: listeners.admin }] },
          ],
        }),
        ...(outbound !== undefined && { egress: buildEgressRules(outbound) }),
      },
    },
  )
}

/** Returns the network of an address or a network in the form of a NetworkPolicy. */
export const formatNetwork = (text: string): string =>
  isIPv4(text) ? `${text}/32` : isIPv6(text) ? `${text}/128` : text

/** Returns why a NetworkPolicy can't contain what a text names; undefined if it can. */
export function findOutboundProblem(text: string): string | undefined {
  const network = formatNetwork(text)
  return parseNetwork(network) === undefined
    ? 'must be an address or a network such as 10.0.0.0/8: a NetworkPolicy can’t use names'
    : findNetworkProblem(network)
}

function buildEgressRules(outbound: Outbound): readonly object[] {
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

/** Returns, by JSON pointer, what the API server would refuse of peers that the schema accepts. */
export const checkPeers = (peers: NetworkPeers = []) =>
  peers.flatMap(({ ipBlock }, index) => {
    if (!ipBlock) return []
    const { cidr, except = [] } = ipBlock
    const at = `/spec/networkPolicy/ingressFrom/${index}/ipBlock`
    const problem = findNetworkProblem(cidr)
    if (problem !== undefined) return [{ pointer: `${at}/cidr`, message: problem }]
    return except.flatMap((part, position) => {
      const message = isPartOf(part, parseNetwork(cidr) as Network)
        ? findNetworkProblem(part)
        : `must be a part of ${cidr}`
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

/** A DNS label. */
export const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
export const QUALIFIED = /^(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/
export const LABEL_VALUE = /^(?:[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/

/** The namespace and the label of the operator's pods, as operator/deploy installs them. */
export const OPERATOR_NAMESPACE = 'portico-system'
export const OPERATOR_NAME = 'portico-operator'
/** Returns the name of an installation's Lease, roles and bindings. Several installations may share a namespace. */
export const formatOperatorName = (installation: string | undefined): string =>
  installation === undefined ? OPERATOR_NAME : `${OPERATOR_NAME}-for-${installation}`
export const OPERATOR_LEASE_ROLE = `${OPERATOR_NAME}-lease`

/** The Secret, in the operator's namespace, with the key that detects changed values of Secrets. */
export const OPERATOR_REVISIONS = `${OPERATOR_NAME}-revisions`

/** Service and Secret of the operator's admission webhook, in its namespace. */
export const ADMISSION_NAME = `${OPERATOR_NAME}-admission`
/** Returns the name of the cluster-scoped ValidatingWebhookConfiguration and its ClusterRole, with the namespace. */
export const formatAdmissionName = (namespace: string): string => `${OPERATOR_NAME}.${namespace}`
/** Returns the name of the webhook in it: a domain of three labels or more. */
export const formatWebhookName = (group: string): string => `warnings.${group}`

const buildNamespacePeer = (namespace: string, labels?: Readonly<Record<string, string>>): AdminPeer => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
  ...(labels && { podSelector: { matchLabels: labels } }),
})

export const operatorPeer = (namespace = OPERATOR_NAMESPACE): AdminPeer =>
  buildNamespacePeer(namespace, { 'app.kubernetes.io/name': OPERATOR_NAME })

function parseLabels(text: string): Readonly<Record<string, string>> | undefined {
  const pairs = text.split(',').map((pair) => pair.split('='))
  const isSound = ([key = '', value, ...more]: readonly string[]) =>
    QUALIFIED.test(key) && value !== undefined && LABEL_VALUE.test(value) && more.length === 0
  return pairs.every(isSound) ? Object.fromEntries(pairs) : undefined
}

/** Parses `NAMESPACE`, `NAMESPACE/label=value,…` or a CIDR. Returns undefined for any other text. */
export function parseAdminPeer(text: string): AdminPeer | undefined {
  if (parseNetwork(text) !== undefined)
    return findNetworkProblem(text) === undefined ? { ipBlock: { cidr: text } } : undefined
  const slash = text.indexOf('/')
  const namespace = slash < 0 ? text : text.slice(0, slash)
  if (!LABEL.test(namespace)) return undefined
  if (slash < 0) return buildNamespacePeer(namespace)
  const labels = parseLabels(text.slice(slash + 1))
  return labels && buildNamespacePeer(namespace, labels)
}
