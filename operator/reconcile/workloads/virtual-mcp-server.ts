import { type VirtualMCPServer, virtualMcpServer } from '../../../crds/index.ts'
import { SERVICE_TIMEOUT, TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import { failureHandling } from '../../../crds/settings/gateway/failure-handling.ts'
import { optimizer as optimizerSchema } from '../../../crds/settings/gateway/optimizer.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import { isOfCluster, withoutUrlSecrets } from '../../../dataplane/config/check/url.ts'
import type { GatewayConfig, OptimizerConfig } from '../../../dataplane/config/gateway.ts'
import type { BackendObservation, ClusterView, WorkloadObservation } from '../../model/view.ts'
import { gatewayListeners } from '../../render/network/network.ts'
import { formatConfigMapName } from '../../render/object/object.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import { buildAuthServerSettings, checkIssuer, checkReplicas, reportAuthServer } from '../configs/auth-server.ts'
import { buildAuthzSettings, warnOfAuthz } from '../configs/mcp-authz-config.ts'
import { listProviders } from '../configs/mcp-external-auth-config.ts'
import { buildOidc, findUnusedByIssuer } from '../configs/mcp-oidc-config.ts'
import { type PinState, readGatewayPinning, reportDefinitions } from '../configs/mcp-pin.ts'
import { buildWorkloadTelemetry } from '../configs/mcp-telemetry-config.ts'
import { validateGateway } from '../outcome/findings.ts'
import {
  type Conditions,
  type ExplainedPlan,
  type ProblemDetail,
  type Problems,
  type ReconcileContext,
  warnOfNoEffect,
} from '../outcome/plan.ts'
import { type MountPlace, mountSettings, type Resolver, startResolver } from '../references/references.ts'
import { checkCredential, listUpstreamProviders, resolveCredential } from '../rendering/backend.ts'
import type { Assembly } from '../rendering/proxy.ts'
import { checkWorkload, noteFindings, renderGatewayPods } from '../rendering/rendering.ts'
import {
  buildAddresses,
  buildAudit,
  buildCors,
  buildEndpoint,
  buildRateLimits,
  buildServerCard,
  buildSessionStorage,
  buildUsage,
  checkProofs,
  reportProofs,
  respellAddresses,
  type SessionStorageSpec,
  warnOfOpenToAll,
  warnOfRateLimits,
  warnOfSessions,
} from '../rendering/shared-settings.ts'
import { planWorkload } from '../rendering/workload.ts'
import { buildAggregation } from './aggregation.ts'
import { buildCatalogGate, findUnusedGateSettings, reportCatalogGate } from './catalog-gate.ts'
import { type CompositeTools, collectCompositeTools, reportCompositeTools } from './composite-tools.ts'
import { collectMembers, type Members } from './group-members.ts'

type Spec = VirtualMCPServer['spec']
type Operational = NonNullable<NonNullable<Spec['config']>['operational']>

interface GatewayAssembly extends Assembly {
  readonly members: Members
  readonly compositeTools: CompositeTools
  readonly description: string | undefined
}

/** Records why a credential that the gateway itself names is unavailable. */
function checkCredentials({ outgoingAuth }: Spec, resolver: Resolver): void {
  const { backends = {}, default: others } = outgoingAuth ?? {}
  for (const auth of [others, ...Object.values(backends)]) checkCredential(auth?.externalAuthConfigRef, resolver)
}

const readStorage = ({ sessionStorage, config }: Spec): SessionStorageSpec | undefined =>
  sessionStorage ?? config?.sessionStorage

function mergePassthrough({ passthroughHeaders = [], config }: Spec): Pick<GatewayConfig, 'passthroughHeaders'> {
  const names = [...passthroughHeaders, ...(config?.passthroughHeaders ?? [])].map((name) => name.toLowerCase())
  return names.length === 0 ? {} : { passthroughHeaders: [...new Set(names)].sort() }
}

function buildIncomingAuth(
  { incomingAuth, authServerConfig }: Spec,
  resolver: Resolver,
  mounts: Mounts,
): GatewayConfig['incomingAuth'] {
  const { type, oidcConfigRef, audience, dpop, scopeRules, scopeImplies } = incomingAuth
  if (type === 'anonymous') return { type }
  if (!oidcConfigRef) {
    resolver.problems.refuse('/spec/incomingAuth/oidcConfigRef', 'must be set when type is oidc')
    return { type }
  }
  const oidc = buildOidc(oidcConfigRef, { besides: audience, ownIssuer: authServerConfig?.issuer }, resolver, mounts)
  return {
    type,
    ...(oidc && { oidc }),
    ...(dpop && { dpop }),
    ...(scopeRules && { scopeRules }),
    ...(scopeImplies && { scopeImplies }),
  }
}

const AUTH_SERVER = '/spec/authServerConfig'

function buildAuthServer(
  { kind, metadata, spec }: VirtualMCPServer,
  { oidc }: GatewayConfig['incomingAuth'],
  resolver: Resolver,
  mounts: Mounts,
): Pick<GatewayConfig, 'authServer'> {
  const { authServerConfig, incomingAuth, replicas } = spec
  if (authServerConfig === undefined) return {}
  const { problems } = resolver
  checkIssuer(
    authServerConfig,
    { pointer: `${AUTH_SERVER}/issuer`, oidcConfig: incomingAuth.oidcConfigRef?.name, oidc },
    problems,
  )
  checkReplicas(authServerConfig, replicas, problems)
  const place = { owner: { kind, metadata }, at: AUTH_SERVER }
  const authServer = buildAuthServerSettings(authServerConfig, place, resolver, mounts)
  const { authServerUpstreamFilter: upstreamFilter } = spec
  return { authServer: { ...authServer, ...(upstreamFilter && { upstreamFilter }) } }
}

const HANDLING = '/spec/config/operational/failureHandling'

const PLACES = {
  '/authServer': AUTH_SERVER,
  '/authServer/upstreamFilter': '/spec/authServerUpstreamFilter',
  '/audit': '/spec/config/audit',
  '/catalogGate': '/spec/config/catalogGate',
  '/cors': '/spec/config/cors',
  '/serverCard': '/spec/serverCard',
  '/optimizer': '/spec/config/optimizer',
  '/name': '/spec/config/name',
  '/resourceUrl': '/spec/incomingAuth/oidcConfigRef/resourceUrl',
  '/incomingAuth/scopeRules': '/spec/incomingAuth/scopeRules',
  '/incomingAuth/scopeImplies': '/spec/incomingAuth/scopeImplies',
  '/incomingAuth/oidc/scopes': '/spec/incomingAuth/oidcConfigRef/scopes',
  '/incomingAuth/dpop': '/spec/incomingAuth/dpop',
  '/aggregation': '/spec/config/aggregation',
  '/rateLimiting': '/spec/config/rateLimiting',
  '/usage': '/spec/config/usage',
  '/timeouts': '/spec/config/operational/timeouts',
  '/failureHandling': HANDLING,
  '/logLevel': '/spec/config/operational/logLevel',
  '/telemetry/serviceName': '/spec/telemetryConfigRef/serviceName',
}

/** Fields from which other parts of the configuration are built. */
const ORIGINS = {
  '/incomingAuth/oidc': '/spec/incomingAuth/oidcConfigRef',
  '/incomingAuth': '/spec/incomingAuth',
  '/authz': '/spec/incomingAuth',
  '/backends': '/spec/groupRef',
  '/compositeTools': '/spec/config',
  '/allowedHosts': '/spec/allowedHosts',
  '/passthroughHeaders': '/spec',
  '/sessionStorage': '/spec',
  '/telemetry': '/spec/telemetryConfigRef',
}

function buildOperational(
  { timeouts, logLevel, failureHandling: handling }: Operational,
  resolver: Resolver,
  mounts: Mounts,
): Pick<GatewayConfig, 'timeouts' | 'logLevel' | 'failureHandling'> {
  return {
    ...(timeouts === undefined ? {} : { timeouts: { default: timeouts.default } }),
    ...(logLevel === undefined ? {} : { logLevel }),
    ...(handling === undefined
      ? {}
      : { failureHandling: mountSettings(failureHandling, handling, { at: HANDLING, resolver, mounts }) }),
  }
}

function checkGroupName({ groupRef, config }: Spec, problems: Problems): void {
  if (config?.groupRef !== undefined && config.groupRef !== groupRef.name)
    problems.refuse('/spec/config/groupRef', 'must be the same as /spec/groupRef/name')
}

/** Builds the gateway's configuration and records all problems, except those of single backends. */
function assemble(object: VirtualMCPServer, resolver: Resolver, context: ReconcileContext): GatewayAssembly {
  const { spec, metadata } = object
  const { problems } = resolver
  const group = checkWorkload(virtualMcpServer, object, 'rolling', resolver)
  checkGroupName(spec, problems)
  checkCredentials(spec, resolver)
  const mounts = startMounts(formatConfigMapName(object))
  const { oidcConfigRef, audience } = spec.incomingAuth
  const found = buildAddresses(object, gatewayListeners.listen, buildEndpoint, context)
  const addresses = respellAddresses(found, [oidcConfigRef?.resourceUrl, audience, oidcConfigRef?.audience])
  const resourceUrl = oidcConfigRef?.resourceUrl ?? addresses.externalUrl ?? addresses.url
  const members = collectMembers(spec.groupRef.name, {
    resolver,
    mounts,
    context,
    chooseCredential: (name, own) => resolveCredential(spec, name, own),
    hasCallers: spec.incomingAuth.type === 'oidc',
    pinning: readGatewayPinning(spec.config),
    upstreamProviders: listUpstreamProviders(spec),
  })
  const { operational = {} } = spec.config ?? {}
  const incomingAuth = buildIncomingAuth(spec, resolver, mounts)
  const authServer = buildAuthServer(object, incomingAuth, resolver, mounts)
  const compositeTools = collectCompositeTools(spec.config ?? {}, object.status?.compositeTools ?? {}, resolver)
  const telemetry = buildWorkloadTelemetry(spec.telemetryConfigRef, metadata.name, resolver, mounts)
  const config: GatewayConfig = {
    name: spec.config?.name ?? metadata.name,
    namespace: metadata.namespace,
    role: 'gateway',
    resourceUrl,
    allowedHosts: [...addresses.hosts, ...(spec.allowedHosts ?? [])],
    ...buildCors(spec.config?.cors),
    ...buildServerCard(spec.serverCard, resourceUrl, problems),
    incomingAuth,
    ...authServer,
    ...buildAuthzSettings(spec.incomingAuth, { at: '/spec/incomingAuth', ...authServer }, resolver),
    backends: members.served.map(({ backend }) => {
      const timeout = operational.timeouts?.perWorkload?.[backend.name]
      return timeout === undefined ? backend : { ...backend, timeout }
    }),
    ...buildCatalogGate(spec.config?.catalogGate, members.served, { resolver, mounts, context }),
    ...buildAggregation(spec.config?.aggregation, resolver),
    ...mergePassthrough(spec),
    ...buildSessionStorage(object, readStorage(spec), resolver, mounts),
    ...buildRateLimits(spec.config?.rateLimiting),
    ...buildOptimizer(spec.config?.optimizer, { at: '/spec/config/optimizer', resolver, mounts }),
    ...(compositeTools.served.length === 0 ? {} : { compositeTools: compositeTools.served }),
    ...buildOperational(operational, resolver, mounts),
    ...(telemetry === undefined ? {} : { telemetry }),
    ...buildAudit(spec.config?.audit),
    ...buildUsage(spec.config?.usage),
  }
  checkProofs(config, '/spec/incomingAuth/dpop', problems)
  if (problems.none) noteFindings(validateGateway(config), problems, PLACES, ORIGINS)
  return {
    config,
    mounts,
    ...addresses,
    members,
    compositeTools,
    description: group?.spec.description,
  }
}

/** Sets `BackendsReady`: the members that aren't served, and why. The gateway stays ready without them. */
function reportBackends({ served, leftOut }: Members, conditions: Conditions): void {
  const texts = leftOut.map(({ kind, name, message }) => `${kind} ${JSON.stringify(name)} is left out: ${message}`)
  if (texts.length > 0) conditions.set('BackendsReady', 'False', 'BackendsLeftOut', texts.join('; '))
  else if (served.length === 0) conditions.set('BackendsReady', 'False', 'NoBackends', 'the group has no members')
  else conditions.set('BackendsReady', 'True', 'AllServed', '')
}

/** Returns the pinning of each member, and what the pods of gateway and proxies report of it. */
function readMemberPins(
  { served }: Members,
  view: ClusterView,
  { metadata: { namespace } }: VirtualMCPServer,
  seen: WorkloadObservation | undefined,
): readonly PinState[] {
  return served.flatMap(({ kind, backend: { name, pinning }, mode }) => {
    const find = (from: WorkloadObservation | undefined) => from?.definitions?.find((one) => one.name === name)
    const here: PinState = {
      name,
      mode: pinning?.mode ?? 'disabled',
      isPinned: pinning?.pins !== undefined,
      seen: find(seen),
    }
    if (kind === 'MCPServerEntry' || mode === 'disabled') return [here]
    // A proxy without pins says so itself.
    const there = { name, mode, isPinned: true, seen: find(view.observe(kind, namespace, name)) }
    return pinning === undefined ? [there] : [here, there]
  })
}

/** Warns of settings for backends that the group doesn't have (yet), because of a typing error or a missing member. */
function warnOfUnknownBackends(
  { outgoingAuth, config }: Spec,
  { served, leftOut }: Members,
  conditions: Conditions,
): void {
  const members = new Set([...served.map(({ backend }) => backend.name), ...leftOut.map(({ name }) => name)])
  const settings: readonly (readonly [string, readonly string[]])[] = [
    ['outgoingAuth.backends', Object.keys(outgoingAuth?.backends ?? {})],
    ['config.aggregation.tools', (config?.aggregation?.tools ?? []).map(({ workload }) => workload)],
    ['config.aggregation.skills', (config?.aggregation?.skills ?? []).map(({ workload }) => workload)],
    ['config.operational.timeouts.perWorkload', Object.keys(config?.operational?.timeouts?.perWorkload ?? {})],
  ]
  const texts = settings.flatMap(([place, names]) =>
    names
      .filter((name) => !members.has(name))
      .sort()
      .map((name) => `${place} names ${JSON.stringify(name)}, which is not a member of the group`),
  )
  if (texts.length > 0) conditions.set('BackendNameWarning', 'True', 'NoSuchMember', texts.join('; '))
}

/** Returns the settings that have no effect beside the others. */
function findUnusedSettings(
  { incomingAuth, authServerConfig, sessionStorage, config }: Spec,
  resolver: Resolver,
): readonly ProblemDetail[] {
  const { aggregation, optimizer, pinning } = config ?? {}
  const { conflictResolution, conflictResolutionConfig: { priorityOrder, prefixFormat = TOOL_PREFIX } = {} } =
    aggregation ?? {}
  const at = 'aggregation/conflictResolutionConfig'
  const isNotFor = (strategy: string) =>
    `has no effect under conflictResolution ${conflictResolution}: it is for ${strategy}`
  const settings: readonly (readonly [isUnused: boolean, field: string, message: string])[] = [
    [
      pinning?.mode === 'disabled' && pinning.unpinnedBackends === 'allow',
      'pinning/unpinnedBackends',
      'has no effect under mode disabled: nothing is withheld',
    ],
    [
      sessionStorage !== undefined && config?.sessionStorage !== undefined,
      'sessionStorage',
      'has no effect: /spec/sessionStorage is used',
    ],
    [priorityOrder !== undefined && conflictResolution !== 'priority', `${at}/priorityOrder`, isNotFor('priority')],
    [prefixFormat !== TOOL_PREFIX && conflictResolution !== 'prefix', `${at}/prefixFormat`, isNotFor('prefix')],
    [
      optimizer !== undefined &&
        optimizer.embeddingService === undefined &&
        optimizer.embeddingServiceTimeout !== SERVICE_TIMEOUT,
      'optimizer/embeddingServiceTimeout',
      'has no effect: it is for embeddingService',
    ],
  ]
  const place = { issuer: authServerConfig?.issuer, pointer: '/spec/incomingAuth/oidcConfigRef' }
  return [
    ...findUnusedByIssuer(incomingAuth.oidcConfigRef, place, resolver),
    ...findUnusedGateSettings(config?.catalogGate),
    ...settings.flatMap(([isUnused, field, message]) =>
      isUnused ? [{ pointer: `/spec/config/${field}`, joint: ' ' as const, message }] : [],
    ),
  ]
}

/** Warns of clashing tool names. Only the backends themselves know them, so rendering can't find them. */
function warnOfClashes(clashes: readonly string[], conditions: Conditions): void {
  if (clashes.length === 0) return
  const message = `${clashes.join('; ')}; filters or overrides tell them apart`
  conditions.set('AggregationConflict', 'True', 'AggregationConflict', message)
}

/** Plans the MCP servers of a group behind one endpoint. */
export function reconcileVirtualMcpServer(
  object: VirtualMCPServer,
  view: ClusterView,
  context: ReconcileContext,
): ExplainedPlan {
  const resolver = startResolver(view, object.metadata.namespace)
  const { problems } = resolver
  const assembly = assemble(object, resolver, context)
  const { spec } = object
  const { description } = assembly
  const { lastGood } = assembly.compositeTools
  const service = {
    port: gatewayListeners.listen,
    portName: 'mcp' as const,
    ...(description === undefined ? {} : { annotations: { [`${context.group}/description`]: description } }),
  }
  return planWorkload({
    object,
    resolver,
    context,
    render: () => renderGatewayPods(object, assembly, { service, problems }, context),
    replicas: spec.replicas,
    extra: (conditions, seen) => {
      const { clashes = [], replicas: running } = seen ?? {}
      reportBackends(assembly.members, conditions)
      reportHealth(seen?.backends, conditions)
      reportDefinitions(
        readMemberPins(assembly.members, view, object, seen),
        { isOfGateway: true, problems },
        conditions,
      )
      reportCatalogGate(spec.config?.catalogGate, seen, conditions)
      warnOfUnknownBackends(spec, assembly.members, conditions)
      warnOfClashes(clashes, conditions)
      reportCompositeTools(assembly.compositeTools, assembly.config, conditions)
      warnOfOpenToAll(assembly.config, { settings: spec }, context, conditions)
      reportProofs(assembly.config, '/spec/incomingAuth/dpop', conditions)
      warnOfAuthz(spec.incomingAuth, spec.incomingAuth.type === 'anonymous', conditions)
      const served = listProviders(assembly.config)
      const place = { at: AUTH_SERVER, pointer: AUTH_SERVER, seen, served }
      if (spec.authServerConfig !== undefined) reportAuthServer(spec.authServerConfig, place, conditions)
      warnOfNoEffect(findUnusedSettings(spec, resolver), conditions)
      warnOfSessions({ ...spec, sessionStorage: readStorage(spec) }, conditions)
      warnOfRateLimits(
        {
          rateLimiting: spec.config?.rateLimiting,
          sessionStorage: readStorage(spec),
          replicas: spec.replicas ?? running ?? 1,
          isAnonymous: spec.incomingAuth.type === 'anonymous',
        },
        conditions,
      )
    },
    status: {
      ...(Object.keys(lastGood).length === 0 ? {} : { compositeTools: lastGood }),
      backendCount: assembly.members.served.length,
      discoveredBackends: assembly.members.served.map(({ kind, backend: { name, url }, credential }) => ({
        name,
        kind,
        url: url && withoutUrlSecrets(url),
        ...(credential === undefined ? {} : { authConfigRef: credential.config, authType: credential.type }),
      })),
    },
    observed: (served, seen) => buildBackendStates(served, seen?.backends),
  })
}

/** Builds the gateway's tool search, with its key as a file. Missing references are recorded as problems. */
function buildOptimizer(
  optimizer: Static<typeof optimizerSchema> | undefined,
  place: MountPlace,
): { readonly optimizer?: OptimizerConfig } {
  if (optimizer === undefined) return {}
  const { embeddingProvider, embeddingServiceTimeout, ...settings } = mountSettings(optimizerSchema, optimizer, place)
  const { embeddingService: service } = settings
  return {
    optimizer: {
      ...settings,
      // Both have defaults and are set even if no service is configured.
      ...(service === undefined && embeddingProvider === 'tei' ? {} : { embeddingProvider }),
      ...(service === undefined ? {} : { embeddingServiceTimeout }),
      ...(leadsToCluster(service) ? { embeddingAllowPrivateIP: true } : {}),
    },
  }
}

function leadsToCluster(service: string | undefined): boolean {
  const url = URL.parse(service ?? '')
  return url !== null && isOfCluster(url)
}

/**
 * Sets `BackendsHealthy` once the pods have reported. No event: workloads that start together become ready one by one.
 */
function reportHealth(observed: readonly BackendObservation[] | undefined, conditions: Conditions): void {
  if (observed === undefined) return
  const texts = observed.flatMap(({ name, status, message }) =>
    status === 'unavailable' ? [`${JSON.stringify(name)}${message === undefined ? '' : `: ${message}`}`] : [],
  )
  if (texts.length === 0) conditions.set('BackendsHealthy', 'True', 'NoneUnavailable', '')
  else
    conditions.set(
      'BackendsHealthy',
      'False',
      'BackendsUnavailable',
      `these backends are unavailable: ${texts.join('; ')}`,
    )
}

interface Served {
  readonly discoveredBackends?: readonly { readonly name: string }[]
}

/** Returns the backends of a status, each with what the pods report of it; nothing until they have reported. */
function buildBackendStates(
  { discoveredBackends = [] }: Served,
  observed: readonly BackendObservation[] | undefined,
): object | undefined {
  if (observed === undefined) return undefined
  const byName = new Map(observed.map((backend) => [backend.name, backend]))
  const backends = discoveredBackends.map(({ name, ...backend }) => ({
    ...withoutHealth(backend),
    name,
    ...byName.get(name),
  }))
  const away = backends.filter(({ name }) => byName.get(name)?.status === 'unavailable')
  return { backendCount: backends.length - away.length, discoveredBackends: backends }
}

/** Removes the health from a backend in the status, because it may be out of date. */
function withoutHealth(backend: object): object {
  const { status, mcpRevision, circuitBreakerState, message, ...rest } = backend as Partial<BackendObservation>
  return rest
}
