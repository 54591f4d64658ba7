import type { Static } from 'typebox'
import Type from 'typebox'
import { type MCPServer, mcpServer } from '../../../crds/index.ts'
import { longParser } from '../../../dataplane/config/check/long-check.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { type Finding, findingLine } from '../../../dataplane/config/load.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import type { ClusterView } from '../../model/view.ts'
import { findOutboundProblem, formatNetwork, type Outbound, sidecarListeners } from '../../render/network/network.ts'
import { hashValue } from '../../render/object/canonical.ts'
import { serverContainerName } from '../../render/object/object.ts'
import {
  buildListenVariables,
  buildServerContainer,
  isPinned,
  type Mounts,
  resourceDefaults,
} from '../../render/pod/containers.ts'
import { readFields, readItems } from '../../render/pod/pod-template-rules.ts'
import { attachRights } from '../../render/rights.ts'
import { validateGateway } from '../outcome/findings.ts'
import type { Conditions, ExplainedPlan, Problems, ReconcileContext } from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'
import {
  buildEra,
  buildForwardedCredential,
  buildHttpTransport,
  buildProxyCredential,
  buildStdioBackend,
  type OutgoingCredential,
  withCredential,
} from '../rendering/backend.ts'
import {
  type Assembly,
  assembleProxy,
  PROXY_ORIGINS,
  PROXY_PLACES,
  readReplicas,
  reportProxy,
} from '../rendering/proxy.ts'
import { checkWorkload, noteFindings, readResources, renderPods } from '../rendering/rendering.ts'
import { findGatewayPeers } from '../rendering/shared-settings.ts'
import { planWorkload, type Rendered } from '../rendering/workload.ts'

const MCP_PORT = 8080

/** Returns the shape of the pods. A proxy attaches to a stdio server by its pod's name, so that is a StatefulSet. */
const chooseShape = ({ spec }: MCPServer) => (spec.transport === 'stdio' ? 'stateful' : 'rolling')

function checkPorts({ spec }: MCPServer, problems: Problems): void {
  const { mcpPort = MCP_PORT, replicas, backendReplicas, transport } = spec
  if (mcpPort === sidecarListeners.listen || mcpPort === sidecarListeners.admin) {
    const message = `the proxy in the same pod listens on ${mcpPort}; choose another port`
    problems.add('Valid', 'PortTaken', { pointer: '/spec/mcpPort', message })
  }
  if (replicas !== undefined && backendReplicas !== undefined && replicas !== backendReplicas)
    problems.refuse('/spec/backendReplicas', 'must equal replicas: server and proxy share a pod')
  if (transport === 'stdio' && (readReplicas(spec) ?? 1) > 1)
    problems.refuse('/spec/replicas', 'must not be above 1: a stdio server has one conversation')
}

function checkHasHeaders({ spec }: MCPServer, credential: OutgoingCredential | undefined, problems: Problems): void {
  if (credential === undefined || credential.type === 'unauthenticated') return
  if (spec.transport !== 'stdio' && credential.type !== 'awsSts') return
  const message =
    credential.type === 'awsSts'
      ? 'awsSts signs requests to AWS, but this server runs in the cluster'
      : 'a stdio server reads no headers; give it the credential by secrets'
  problems.add('Valid', 'CredentialUnusable', { pointer: '/spec/externalAuthConfigRef', message })
}

function buildBackend(object: MCPServer, mounts: Mounts, context: ReconcileContext): Omit<BackendConfig, 'name'> {
  const { spec, metadata } = object
  if (spec.transport === 'stdio') return { ...buildStdioBackend(object, mounts, context), ...buildEra(spec) }
  const port = spec.mcpPort ?? MCP_PORT
  const url = context.serverUrl?.({ namespace: metadata.namespace, name: metadata.name, port })
  const path = spec.transport === 'sse' ? '/sse' : '/mcp'
  return { url: url ?? `http://127.0.0.1:${port}${path}`, ...buildHttpTransport(spec) }
}

interface ServerAssembly extends Assembly {
  /** The outbound traffic that the pods may send; undefined if no profile is set. */
  readonly outbound: Outbound | undefined
}

/** Builds the configuration of the proxy in the server's pod and records all problems. */
export function assembleMcpServer(object: MCPServer, resolver: Resolver, context: ReconcileContext): ServerAssembly {
  const { spec } = object
  const { problems } = resolver
  checkWorkload(mcpServer, object, chooseShape(object), resolver)
  checkPorts(object, problems)
  for (const { name, key } of spec.secrets ?? []) resolver.secretKey({ name, key })
  const assembly = assembleProxy(
    object,
    (mounts) => {
      const credential = buildProxyCredential(spec, resolver, mounts)
      checkHasHeaders(object, credential, problems)
      const backend = { ...buildBackend(object, mounts, context), ...buildForwardedCredential(object, resolver) }
      // In a group the gateways send the credential, each by its own configuration.
      const isOwn = spec.transport !== 'stdio' && (spec.groupRef === undefined || credential?.isPersonal === true)
      return isOwn ? withCredential(backend, credential) : backend
    },
    resolver,
    context,
  )
  const outbound = resolveProfile(spec.permissionProfile, resolver)
  if (!context.isOwnMachine) checkOutbound(outbound, assembly.config, problems)
  if (problems.none) noteFindings(validateGateway(assembly.config), problems, PROXY_PLACES, PROXY_ORIGINS)
  return { ...assembly, outbound }
}

/** Returns the image of the server's container, which a pod template may replace. */
export function findImage({ image, podTemplateSpec }: MCPServer['spec']): string {
  const own = listContainers(podTemplateSpec).find(({ name }) => name === serverContainerName)?.['image']
  return typeof own === 'string' ? own : image
}

/** Returns a revision of the Secret values in the environment. A process reads these once: changes need new pods. */
function computeSecretRevision(
  { spec, metadata }: MCPServer,
  view: ClusterView,
  { findSecretRevision }: ReconcileContext,
): string | undefined {
  if (!spec.secrets?.length) return undefined
  const revisions = spec.secrets.map(({ name, key }) => [
    name,
    key,
    view.secret(metadata.namespace, name)?.keys.get(key),
  ])
  return findSecretRevision?.(metadata) ?? hashValue(revisions)
}

/** Renders all children of a server with a complete configuration. */
function renderMcpServer(
  object: MCPServer,
  assembly: ServerAssembly,
  { view, problems }: Resolver,
  context: ReconcileContext,
): Rendered {
  const { spec } = object
  const shape = chooseShape(object)
  const port = shape === 'stateful' ? undefined : (spec.mcpPort ?? MCP_PORT)
  const server = buildServerContainer(spec, port, readResources(spec.resources, resourceDefaults.server, problems))
  const revision = computeSecretRevision(object, view, context)
  return renderPods(
    object,
    assembly,
    {
      role: 'gateway',
      listeners: sidecarListeners,
      resources: readResources(spec.proxyResources, resourceDefaults.sidecar, problems),
      volumes: server.volumes,
      server: server.container,
      ...(revision === undefined ? {} : { annotations: { [`${context.group}/secret-revision`]: revision } }),
      service: { port: spec.proxyPort, portName: 'mcp' },
      shape,
      rights: shape === 'stateful' ? attachRights(object, context.group, spec.serviceAccount) : undefined,
      outbound: assembly.outbound,
      gateways: findGatewayPeers(object, view),
      replicas: shape === 'stateful' ? Math.min(1, readReplicas(spec) ?? 1) : readReplicas(spec),
      problems,
    },
    context,
  )
}

/** Plans an MCP server in a container of its own, with our proxy beside it in the same pod. */
export function reconcileMcpServer(object: MCPServer, view: ClusterView, context: ReconcileContext): ExplainedPlan {
  const { spec } = object
  const resolver = startResolver(view, object.metadata.namespace)
  const assembly = assembleMcpServer(object, resolver, context)
  return planWorkload({
    object,
    resolver,
    context,
    render: () => renderMcpServer(object, assembly, resolver, context),
    replicas: readReplicas(spec),
    extra: (conditions, seen) => {
      const secrets = [...new Set((spec.secrets ?? []).map(({ name }) => name))]
      const reported = { config: assembly.config, seen, gateways: findGatewayPeers(object, view), secrets, context }
      reportProxy(object, reported, resolver, conditions)
      warnOfOutbound(assembly.outbound, context, conditions)
      warnOfEnvFrom(spec, spec.mcpPort ?? MCP_PORT, conditions)
    },
    status: { imagePinned: isPinned(findImage(spec)) },
  })
}

/** Lists the services that the proxy in the server's pod must reach, besides the server. */
function listOwnNeeds({
  incomingAuth,
  authServer,
  sessionStorage,
  telemetry,
  backends,
}: GatewayConfig): readonly string[] {
  const { stdio, credential } = backends[0] ?? {}
  return [
    ...(stdio?.attach ? ['the API server, through which it attaches to a stdio server'] : []),
    ...(incomingAuth.oidc ? ['the issuer of tokens'] : []),
    ...(authServer ? ['login providers'] : []),
    ...(sessionStorage?.redis ? ['Redis'] : []),
    ...(telemetry?.openTelemetry?.enabled ? ['the endpoint of telemetry'] : []),
    ...(credential && credential.type !== 'forwarded' ? ['the token endpoint of the server’s credential'] : []),
  ]
}

/** Records a problem if the outbound rules cut off the proxy: a NetworkPolicy applies to the whole pod. */
function checkOutbound(outbound: Outbound | undefined, config: GatewayConfig, problems: Problems): void {
  const needs = outbound === 'nothing' ? listOwnNeeds(config) : []
  if (needs.length === 0) return
  const message = `allows no connections out of the pod, but the proxy in it must reach ${needs.join(', ')}; list their addresses in a profile of type configmap`
  problems.add('Valid', 'ProxyShutIn', { pointer: '/spec/permissionProfile', joint: ' ', message })
}

/** Warns if outbound rules are not enforced: there are no NetworkPolicies on a user's own machine. */
function warnOfOutbound(
  outbound: Outbound | undefined,
  { isOwnMachine }: ReconcileContext,
  conditions: Conditions,
): void {
  if (!isOwnMachine || outbound === undefined || outbound === 'anything') return
  const message = 'is not enforced on this machine; in a cluster a NetworkPolicy enforces it'
  conditions.set('PermissionProfileWarning', 'True', 'NotEnforced', message)
}

const listContainers = (podTemplateSpec: MCPServer['spec']['podTemplateSpec']) =>
  readItems(readFields(podTemplateSpec?.['spec'])['containers'])

/**
 * Warns that `envFrom` may not set the port: Kubernetes puts `env` before `envFrom`, and only the kubelet knows the
 * keys.
 */
function warnOfEnvFrom(spec: MCPServer['spec'], port: number, conditions: Conditions): void {
  const { transport, env = [], secrets = [], podTemplateSpec } = spec
  if (transport === 'stdio') return
  const containers = listContainers(podTemplateSpec)
  const at = containers.findIndex(({ name }) => name === serverContainerName)
  const own = containers[at] ?? {}
  const prefixes = readItems(own['envFrom']).map(({ prefix }) => (typeof prefix === 'string' ? prefix : ''))
  const set = new Set<unknown>([
    ...[...env, ...readItems(own['env'])].map(({ name }) => name),
    ...secrets.map(({ key, targetEnvName }) => targetEnvName ?? key),
  ])
  const hidden = buildListenVariables(port)
    .map(({ name }) => name)
    .filter((name) => !set.has(name) && prefixes.some((prefix) => name.startsWith(prefix) && name !== prefix))
  if (hidden.length === 0) return
  const message =
    `/spec/podTemplateSpec/spec/containers/${at}/envFrom: ${hidden.join(', ')}, if there, would have no effect: the ` +
    'operator sets them in env, which Kubernetes puts before envFrom; name them in env, by valueFrom'
  conditions.set('EnvironmentWarning', 'True', 'EnvFromHidden', message)
}

const strict = { additionalProperties: false }
const texts = Type.Optional(Type.Array(Type.String()))

/** A profile of the widely used operator. Pods can enforce only its rules on outbound traffic. */
const profileSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    read: texts,
    write: texts,
    privileged: Type.Optional(Type.Boolean()),
    network: Type.Optional(
      Type.Object(
        {
          mode: Type.Optional(Type.String()),
          outbound: Type.Optional(
            Type.Object(
              {
                insecure_allow_all: Type.Optional(Type.Boolean()),
                allow_host: Type.Optional(Type.Array(Type.String(), { maxItems: 256 })),
                allow_port: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), { maxItems: 256 })),
              },
              strict,
            ),
          ),
          inbound: Type.Optional(Type.Object({ allow_host: texts }, strict)),
        },
        strict,
      ),
    ),
  },
  strict,
)

type Profile = Static<typeof profileSchema>

const MODES = new Set(['', 'bridge', 'default', 'none'])

/** Finds settings of a profile that a pod can't enforce. */
function findUnenforceable({ read = [], write = [], privileged, network = {} }: Profile): readonly Finding[] {
  const { mode = '', outbound = {}, inbound } = network
  const findings: Finding[] = []
  const refuse = (isRefused: boolean | undefined, pointer: string, message: string) => {
    if (isRefused) findings.push({ pointer, message })
  }
  refuse(read.length > 0, '/read', 'a pod has no access to files of the host; mount a volume by podTemplateSpec')
  refuse(write.length > 0, '/write', 'a pod has no access to files of the host; mount a volume by podTemplateSpec')
  refuse(privileged, '/privileged', 'a server never runs privileged')
  refuse(!MODES.has(mode), '/network/mode', 'must be none or bridge: a server never has the network of its node')
  refuse(
    (inbound?.allow_host ?? []).length > 0,
    '/network/inbound',
    'is not supported here: use networkPolicy.ingressFrom',
  )
  for (const [index, host] of (outbound.allow_host ?? []).entries()) {
    const problem = findOutboundProblem(host)
    if (problem !== undefined) findings.push({ pointer: `/network/outbound/allow_host/${index}`, message: problem })
  }
  return findings
}

const parseProfile = longParser('permission profiles', configParser(profileSchema, findUnenforceable))

function buildOutbound({ network = {} }: Profile): Outbound {
  const { mode, outbound = {} } = network
  if (mode === 'none') return 'nothing'
  const { insecure_allow_all: isOpen, allow_host: hosts = [], allow_port: ports = [] } = outbound
  if (isOpen) return 'anything'
  if (hosts.length === 0 && ports.length === 0) return 'nothing'
  const networks = hosts.map(formatNetwork)
  return { networks: [...new Set(networks)].sort(), ports: [...new Set(ports)].sort((a, b) => a - b) }
}

const builtin: Readonly<Record<string, Outbound>> = { none: 'nothing', network: 'anything' }

const AT = '/spec/permissionProfile'

/** Returns the allowed outbound traffic. Undefined without a profile or, after recording why, if it is unreadable. */
function resolveProfile(profile: MCPServer['spec']['permissionProfile'], resolver: Resolver): Outbound | undefined {
  if (profile === undefined) return undefined
  const { type, name, key } = profile
  if (type === 'configmap') return readProfile(name, key, resolver)
  const known = Object.hasOwn(builtin, name) ? builtin[name] : undefined
  const { problems } = resolver
  if (key !== undefined) problems.refuse(`${AT}/key`, 'needs type configmap')
  if (known === undefined) problems.refuse(`${AT}/name`, 'must be none or network; type configmap names a ConfigMap')
  return known
}

function readProfile(name: string, key: string | undefined, resolver: Resolver): Outbound | undefined {
  if (key === undefined) {
    resolver.problems.refuse(`${AT}/key`, 'must be set when type is configmap')
    return undefined
  }
  const text = resolver.configMapKey({ name, key })
  if (text === undefined) return undefined
  const parsed = parseProfile(text)
  if ('value' in parsed) return buildOutbound(parsed.value)
  const about = { kind: 'ConfigMap', name }
  const found = parsed.findings.map(findingLine).join('; ')
  const message = `ConfigMap ${JSON.stringify(name)}, ${key}: ${found}`
  resolver.problems.add('ReferencesResolved', 'ReferenceInvalid', { about, message })
  return undefined
}
