import { type MCPRegistry, mcpRegistry } from '../../crds/index.ts'
import { checkRegistry } from '../../dataplane/config/check/registry.ts'
import { ConfigError, configParser } from '../../dataplane/config/load.ts'
import { type RegistryConfig, registryConfigSchema, type SourceConfig } from '../../dataplane/config/registry.ts'
import type { ClusterView } from '../model/view.ts'
import { sortedKeys } from '../render/canonical.ts'
import { configMapName, renderConfig } from '../render/config-map.ts'
import { dataPlaneContainer, registryListeners } from '../render/containers.ts'
import { type Mounts, startMounts } from '../render/mounts.ts'
import { ownEnvironment } from '../render/pod-settings.ts'
import { resourceDefaults } from '../render/resources.ts'
import type { Plan, ReconcileContext } from './plan.ts'
import { type Problems, startProblems } from './problems.ts'
import { addressOf } from './proxy.ts'
import { checkName, containerResources, noteFindings, renderChildren } from './rendering.ts'
import { type Resolver, startResolver } from './resolver.ts'
import { checkSupported } from './supported.ts'
import { planWorkload, type Rendered } from './workload.ts'

/** Where the SQLite file is; standalone has a folder of its own for it. */
const STATE_PATH = '/var/lib/portico'
const STATE_VOLUME = 'portico-state'

interface RegistryAssembly {
  readonly config: RegistryConfig
  readonly mounts: Mounts
}

type Source = NonNullable<MCPRegistry['spec']['sources']>[number]

const parseConfig = configParser(registryConfigSchema, checkRegistry)

/** A source of the configuration file. What the data plane can't read yet was noted when the fields were checked. */
function sourceOf(source: Source, resolver: Resolver, mounts: Mounts): SourceConfig {
  const { configMapRef, path = '' } = source.file ?? {}
  const found = configMapRef && resolver.configMapKey(configMapRef) !== undefined
  return {
    name: source.name,
    file: { path: found ? mounts.sourceFile(configMapRef.name, configMapRef.key) : path },
    ...(source.syncPolicy === undefined ? {} : { syncPolicy: { interval: source.syncPolicy.interval } }),
    ...(source.filter === undefined ? {} : { filter: sortedKeys(source.filter) }),
  }
}

function fromFields({ spec }: MCPRegistry, resolver: Resolver, mounts: Mounts): RegistryConfig {
  const { sources = [], registries = [], auth, cors } = spec
  if (auth?.mode !== 'anonymous') resolver.problems.add('Valid', 'ConfigInvalid', '/spec/auth/mode must be anonymous')
  const config: RegistryConfig = {
    sources: sources.map((source) => sourceOf(source, resolver, mounts)),
    registries: registries.map(({ name, sources: names }) => ({ name, sources: [...names] })),
    auth: { mode: 'anonymous' },
    ...(cors === undefined ? {} : { cors: { origins: [...cors.origins] } }),
  }
  if (resolver.problems.none) noteFindings(checkRegistry(config), resolver.problems)
  return config
}

const nothing: RegistryConfig = { sources: [], registries: [], auth: { mode: 'anonymous' } }

function fromText(text: string, problems: Problems): RegistryConfig {
  try {
    return parseConfig(text)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const { pointer, message, line } of error.findings) {
      const place = ['/spec/configYAML', ...(line === undefined ? [] : [`line ${line}`]), pointer].filter(Boolean)
      problems.add('Valid', 'ConfigInvalid', `${place.join(', ')}: ${message}`)
    }
    return nothing
  }
}

function assemble(object: MCPRegistry, resolver: Resolver): RegistryAssembly {
  const { spec } = object
  const { problems } = resolver
  checkSupported(mcpRegistry, object, problems)
  checkName(object, 'recreate', problems)
  for (const secret of spec.imagePullSecrets ?? []) resolver.secret(secret.name)
  if (spec.replicas !== undefined && spec.replicas > 1)
    problems.add('Valid', 'ConfigInvalid', '/spec/replicas: a registry with its store in the pod has one replica')
  const mounts = startMounts(configMapName(object))
  const config =
    spec.configYAML === undefined ? fromFields(object, resolver, mounts) : fromText(spec.configYAML, problems)
  return { config, mounts }
}

function renderRegistry(
  object: MCPRegistry,
  { config: settings, mounts }: RegistryAssembly,
  problems: Problems,
  context: ReconcileContext,
): Rendered {
  const { spec } = object
  const config = renderConfig(object, context.group, 'registry', settings)
  const container = dataPlaneContainer({
    container: 'portico',
    role: 'registry',
    image: context.image,
    listeners: registryListeners,
    resources: containerResources(spec.resources, resourceDefaults.registry, problems),
    env: ownEnvironment(spec, [{ name: 'PORTICO_STATE_DIR', value: STATE_PATH }]),
    volumeMounts: [...mounts.volumeMounts(), { name: STATE_VOLUME, mountPath: STATE_PATH }],
    sidecar: false,
  })
  const { displayName } = spec
  const children = renderChildren(
    object,
    {
      settings: spec,
      configMap: config.configMap,
      listeners: registryListeners,
      service: {
        port: registryListeners.listen,
        targetPort: 'http',
        ...(displayName === undefined ? {} : { annotations: { [`${context.group}/display-name`]: displayName } }),
      },
      pod: { containers: [container], volumes: [...mounts.volumes(), { name: STATE_VOLUME, emptyDir: {} }] },
      // Two pods on one SQLite file would corrupt it.
      shape: 'recreate',
      replicas: spec.replicas ?? 1,
    },
    problems,
    context,
  )
  return { children, config, url: addressOf(object, registryListeners.listen, context) }
}

/** A registry server. */
export function reconcileMcpRegistry(object: MCPRegistry, view: ClusterView, context: ReconcileContext): Plan {
  const problems = startProblems()
  const assembly = assemble(object, startResolver(view, object.metadata.namespace, problems))
  return planWorkload({
    object,
    view,
    context,
    problems,
    render: () => renderRegistry(object, assembly, problems, context),
    replicas: object.spec.replicas,
  })
}
