import {
  type MCPRegistry,
  mcpRegistry,
  mcpRemoteProxy,
  mcpServer,
  mcpServerEntry,
  virtualMcpServer,
} from '../../../crds/index.ts'
import { API_SERVER } from '../../../crds/settings/gateway/defaults.ts'
import { isObject } from '../../../crds/settings/json.ts'
import { registryConfig, registryConfigNames } from '../../../crds/settings/registry/registry-config.ts'
import { longParser } from '../../../dataplane/config/check/long-check.ts'
import { checkRegistry } from '../../../dataplane/config/check/registry.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { type RegistryConfig, registryConfigSchema } from '../../../dataplane/config/registry.ts'
import type { ClusterView, SourceObservation } from '../../model/view.ts'
import { registryListeners } from '../../render/network/network.ts'
import { hashValue, sortedKeys } from '../../render/object/canonical.ts'
import { formatConfigMapName } from '../../render/object/object.ts'
import {
  MOUNT_ROOT,
  type Mounts,
  resourceDefaults,
  STATE_PATH,
  STATE_VOLUME,
  startMounts,
  stateEnvironment,
  stateMount,
} from '../../render/pod/containers.ts'
import { buildRegistryRights } from '../../render/rights.ts'
import { buildTelemetry } from '../configs/mcp-telemetry-config.ts'
import { collectFindings, type Places } from '../outcome/findings.ts'
import type { Conditions, ExplainedPlan, Problems, ReconcileContext } from '../outcome/plan.ts'
import { mountSettings, type Resolver, startResolver } from '../references/references.ts'
import { checkWorkload, noteFindings, readResources, renderPods } from '../rendering/rendering.ts'
import { type Addresses, buildAddresses, buildAudit } from '../rendering/shared-settings.ts'
import { planWorkload, type Rendered } from '../rendering/workload.ts'

const EXPORTED_KINDS = [mcpServer, mcpRemoteProxy, virtualMcpServer, mcpServerEntry]

interface RegistryAssembly extends Addresses {
  readonly config: RegistryConfig
  readonly mounts: Mounts
  readonly extra: ReturnType<typeof readExtraVolumes>
}

const parseConfig = configParser(registryConfigSchema, checkRegistry)
const parseText = longParser('configurations of registries', parseConfig)

function buildFromFields({ spec, metadata }: MCPRegistry, resolver: Resolver, mounts: Mounts): RegistryConfig {
  const { telemetry, audit, ...others } = spec
  const place = { at: '/spec', resolver, mounts }
  const { sources = [], registries = [], auth, database, ...blocks } = mountSettings(registryConfig, others, place)
  const { port, ...byUrl } = database ?? {}
  return {
    ...blocks,
    sources: sources.map(({ kubernetes, ...source }) =>
      kubernetes === undefined
        ? source
        : { ...source, kubernetes: { namespaces: [resolver.namespace], ...kubernetes } },
    ),
    registries,
    auth: auth ?? { mode: 'anonymous' },
    // The schema gives `port` a default, which has no meaning beside a URL.
    ...(database && { database: database.urlFile === undefined ? database : byUrl }),
    ...buildAudit(audit),
    ...(telemetry && {
      telemetry: buildTelemetry(telemetry, telemetry.serviceName ?? metadata.name, {
        ...place,
        at: '/spec/telemetry',
      }),
    }),
  }
}

const nothing: RegistryConfig = { sources: [], registries: [], auth: { mode: 'anonymous' } }

function parseConfigYaml(text: string, problems: Problems): RegistryConfig {
  const parsed = parseText(text)
  if ('value' in parsed) return parsed.value
  for (const { pointer, message, line } of parsed.findings) {
    const place = [...(line === undefined ? [] : [`line ${line}`]), pointer].filter(Boolean).join(', ')
    if (place === '') problems.refuse('/spec/configYAML', message, ': ')
    else problems.refuse('/spec/configYAML', `${place}: ${message}`, ', ')
  }
  return nothing
}

/** Sets the API server's address and token for Kubernetes sources, mounted only if needed. */
function withCluster(config: RegistryConfig, mounts: Mounts, group: string): RegistryConfig {
  const server = () => ({
    url: API_SERVER,
    tokenFile: mounts.clusterFile('token'),
    caFile: mounts.clusterFile('ca.crt'),
  })
  const sources = config.sources.map(({ kubernetes, ...source }) =>
    kubernetes === undefined ? source : { ...source, kubernetes: { apiServer: server(), group, ...kubernetes } },
  )
  return { ...config, sources }
}

/** Mounts the password as a pgpass file, for both forms of the configuration. */
function withPgpass(
  { spec: { pgpassSecretRef } }: MCPRegistry,
  config: RegistryConfig,
  resolver: Resolver,
  mounts: Mounts,
): RegistryConfig {
  if (pgpassSecretRef === undefined) return config
  resolver.secretKey(pgpassSecretRef)
  if (config.database === undefined) {
    resolver.problems.refuse('/spec/pgpassSecretRef', 'needs database: it holds the password of a database', ': ')
    return config
  }
  const pgpassFile = mounts.secretFile(pgpassSecretRef.name, pgpassSecretRef.key)
  return { ...config, database: { ...config.database, pgpassFile } }
}

/** Sets the object's name as service name in telemetry and component in the audit log, unless configured. */
const withName = (
  { metadata: { name } }: MCPRegistry,
  { telemetry, audit, ...config }: RegistryConfig,
): RegistryConfig => ({
  ...config,
  ...(audit && { audit: { component: name, ...audit } }),
  ...(telemetry && { telemetry: { serviceName: name, ...telemetry } }),
})

const PLACES = Object.fromEntries(registryConfigNames.map((name) => [`/${name}`, `/spec/${name}`]))
const choosePlaces = ({ configYAML }: MCPRegistry['spec']): [Places, Places?] =>
  configYAML === undefined ? [PLACES] : [{}, { '': '/spec/configYAML' }]

function assemble(object: MCPRegistry, resolver: Resolver, context: ReconcileContext): RegistryAssembly {
  const { spec } = object
  const { problems } = resolver
  checkWorkload(mcpRegistry, object, 'recreate', resolver)
  const mounts = startMounts(formatConfigMapName(object))
  const written =
    spec.configYAML === undefined
      ? buildFromFields(object, resolver, mounts)
      : parseConfigYaml(spec.configYAML, problems)
  const complete = withPgpass(object, withCluster(written, mounts, context.group), resolver, mounts)
  const named = withName(object, complete)
  const addresses = buildAddresses(object, registryListeners.listen, (address) => address, context)
  // The names of the registry's Service are allowed hosts, in both forms of the configuration.
  const config = { ...named, allowedHosts: [...addresses.hosts, ...(named.allowedHosts ?? [])] }
  if (problems.none) noteFindings(collectFindings(parseConfig, config), problems, ...choosePlaces(spec))
  const extra = readExtraVolumes(spec, resolver)
  if (config.database === undefined && spec.replicas !== undefined && spec.replicas > 1)
    problems.refuse(
      '/spec/replicas',
      'a registry with its store in the pod can have one replica only; set database for several',
      ': ',
    )
  return { ...addresses, config, mounts, extra }
}

function renderRegistry(
  object: MCPRegistry,
  assembly: RegistryAssembly,
  problems: Problems,
  context: ReconcileContext,
): Rendered {
  const { displayName, storage, resources, replicas, serviceAccount } = object.spec
  const { group } = context
  const { config, extra } = assembly
  const { database } = config
  const readsCluster = config.sources.some(({ kubernetes }) => kubernetes !== undefined)
  const store = storage ? { persistentVolumeClaim: { claimName: storage.claimName } } : { emptyDir: {} }
  return renderPods(
    object,
    assembly,
    {
      role: 'registry',
      listeners: registryListeners,
      resources: readResources(resources, resourceDefaults.registry, problems),
      env: stateEnvironment,
      volumeMounts: [stateMount, ...extra.volumeMounts],
      volumes: [{ name: STATE_VOLUME, ...store }, ...extra.volumes],
      // A change of database creates new pods. A running pod keeps its database.
      ...(database && { annotations: { [`${group}/database`]: hashValue(database) } }),
      service: {
        port: registryListeners.listen,
        portName: 'http',
        ...(displayName === undefined ? {} : { annotations: { [`${group}/display-name`]: displayName } }),
      },
      // Two pods on one SQLite file would corrupt it.
      shape: database === undefined ? 'recreate' : 'rolling',
      rights: readsCluster ? buildRegistryRights(object, group, EXPORTED_KINDS, serviceAccount) : undefined,
      // With a database, absent replicas are left to whoever scales the workload.
      replicas: database === undefined ? (replicas ?? 1) : replicas,
      problems,
    },
    context,
  )
}

/** Warns if published entries are lost with the pod. Unlike synced entries, they exist nowhere else. */
function warnOfStorage({ spec }: MCPRegistry, { sources, database }: RegistryConfig, conditions: Conditions): void {
  const managed = sources.filter((source) => source.managed !== undefined).map(({ name }) => name)
  if (managed.length === 0 || database !== undefined || spec.storage !== undefined) return
  const message = `what is published to ${managed.join(', ')} is lost with the pod: set storage or database`
  conditions.set('StorageWarning', 'True', 'PublishedEntriesInPod', message)
}

/** Plans a registry server. */
export function reconcileMcpRegistry(object: MCPRegistry, view: ClusterView, context: ReconcileContext): ExplainedPlan {
  const { namespace, name } = object.metadata
  const resolver = startResolver(view, namespace)
  const assembly = assemble(object, resolver, context)
  // Until its pods have reported to this operator, their reports to the previous operator stay valid.
  const sources = view.sources(namespace, name) ?? object.status?.sources
  return planWorkload({
    object,
    resolver,
    context,
    render: () => renderRegistry(object, assembly, resolver.problems, context),
    replicas: object.spec.replicas,
    extra(conditions) {
      // On a user's own machine the folder outlives the process.
      if (!context.isOwnMachine) warnOfStorage(object, assembly.config, conditions)
      if (sources !== undefined) setSourcesSynced(sources, conditions)
    },
    observed: () => sources && { sources: buildSourceStates(object, sources, context.now) },
  })
}

type SourceStates = NonNullable<NonNullable<MCPRegistry['status']>['sources']>

/** Builds `status.sources`: the observation of each source, and since when it has been so. */
function buildSourceStates(
  { status }: Pick<MCPRegistry, 'status'>,
  observed: readonly SourceObservation[],
  now: string,
): SourceStates {
  const before = new Map((status?.sources ?? []).map((source) => [source.name, source]))
  return observed.map((source) => {
    const previous = before.get(source.name)
    const lastTransitionTime = previous?.state === source.state ? previous.lastTransitionTime : now
    return { ...source, lastTransitionTime }
  })
}

/** Sets the condition `SourcesSynced`. A failing source degrades only itself: the registry stays ready. */
function setSourcesSynced(observed: readonly SourceObservation[], conditions: Conditions): void {
  const failed = observed.filter(({ state }) => state === 'Failed')
  const waiting = observed.filter(({ state }) => state === 'Waiting')
  if (failed.length > 0)
    conditions.set(
      'SourcesSynced',
      'False',
      'SourcesFailed',
      failed.map(({ name, error }) => `${name}: ${error?.message} (${error?.code})`).join('; '),
    )
  else if (waiting.length > 0)
    conditions.set(
      'SourcesSynced',
      'Unknown',
      'SourcesWaiting',
      `waiting for the first sync of ${waiting.map(({ name }) => name).join(', ')}`,
    )
  else conditions.set('SourcesSynced', 'True', 'AllSynced', '')
}

type Fields = Readonly<Record<string, unknown>>

/** Prefix of our own volume names; see `startMounts`. */
const OUR_PREFIX = 'portico-'

/**
 * Returns a pod's own volumes and their mounts in our container. Collisions with ours, the node's disk and missing
 * objects are problems.
 */
function readExtraVolumes(
  { volumes = [], volumeMounts = [] }: MCPRegistry['spec'],
  resolver: Resolver,
): Readonly<Record<'volumes' | 'volumeMounts', readonly object[]>> {
  for (const [index, volume] of volumes.entries()) checkVolume(volume, `/spec/volumes/${index}`, resolver)
  const names = new Set(volumes.map(({ name }) => name))
  const paths = [MOUNT_ROOT, STATE_PATH]
  for (const [index, mount] of volumeMounts.entries())
    checkMount(mount, `/spec/volumeMounts/${index}`, { names, paths }, resolver.problems)
  return { volumes: sortedKeys(volumes), volumeMounts: sortedKeys(volumeMounts) }
}

function checkVolume(volume: Fields, at: string, { problems, ...resolver }: Resolver): void {
  const { name, hostPath, secret, configMap } = volume
  const invalid = (pointer: string, message: string) => problems.refuse(pointer, message, ': ')
  if (typeof name !== 'string') invalid(at, 'must have a name')
  else if (name.startsWith(OUR_PREFIX)) invalid(`${at}/name`, `names that begin with ${OUR_PREFIX} are reserved`)
  if (hostPath !== undefined)
    problems.add('Valid', 'NotSupported', {
      pointer: `${at}/hostPath`,
      message: 'volumes of the node are not supported; use another type of volume',
    })
  if (isObject(secret) && typeof secret['secretName'] === 'string' && secret['optional'] !== true)
    resolver.secret(secret['secretName'])
  if (isObject(configMap) && typeof configMap['name'] === 'string' && configMap['optional'] !== true)
    resolver.configMap(configMap['name'])
}

function checkMount(
  { name, mountPath }: Fields,
  at: string,
  taken: { readonly names: ReadonlySet<unknown>; readonly paths: readonly string[] },
  problems: Problems,
): void {
  const invalid = (pointer: string, message: string) => problems.refuse(pointer, message, ': ')
  if (!taken.names.has(name)) invalid(`${at}/name`, `the pod has no volume ${JSON.stringify(name)}`)
  if (typeof mountPath !== 'string' || !mountPath.startsWith('/'))
    invalid(`${at}/mountPath`, 'must be an absolute path')
  else if (taken.paths.some((path) => isAtOrAbove(mountPath, path) || isAtOrAbove(path, mountPath)))
    invalid(`${at}/mountPath`, `${mountPath} would hide what the registry needs`)
}

/** Tells whether a path is equal to another one or above it. */
function isAtOrAbove(path: string, other: string): boolean {
  const folder = path.replace(/\/+$/, '')
  return other === folder || other.startsWith(`${folder}/`)
}
