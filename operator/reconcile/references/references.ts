import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { type FileForm, isInFiles, nameInFile } from '../../../crds/settings/file-form.ts'
import { type redis, redisConnection, redisUser } from '../../../crds/settings/redis.ts'
import type { SchemaNode, Static, TSchema } from '../../../crds/settings/schema.ts'
import type { RedisSettings } from '../../../dataplane/config/redis.ts'
import type { ClusterView, ObjectName } from '../../model/view.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/containers.ts'
import { formatProblems, type Problems, startProblems } from '../outcome/plan.ts'

export interface KeyRef {
  readonly name: string
  readonly key: string
}

/** Looks up what one object refers to. A missing reference becomes a problem that names it. */
export interface Resolver {
  readonly view: ClusterView
  readonly namespace: string
  readonly problems: Problems
  /** Returns the object of that name, or undefined after recording that it is missing. */
  object<K extends KindDeclaration>(kind: K, name: string): ObjectOf<K> | undefined
  secret(name: string): boolean
  secretKey(ref: KeyRef): boolean
  configMap(name: string): boolean
  configMapKey(ref: KeyRef): string | undefined
}

/** Finds what is wrong with a config: in its own fields (`Valid`) and in what it refers to (`ReferencesResolved`). */
export type CheckConfig<K extends KindDeclaration> = (object: ObjectOf<K>, resolver: Resolver) => void

const quote = (text: string) => JSON.stringify(text)

export function startResolver(view: ClusterView, namespace: string): Resolver {
  const problems = startProblems()
  const note = (reason: string, about: ObjectName, what: string) => {
    const message = `${about.kind} ${quote(about.name)} ${what}`
    problems.add('ReferencesResolved', reason, { about, message })
    return undefined
  }
  const reportMissing = (reason: string, about: ObjectName) =>
    note(reason, about, view.isWrong?.(about.kind, namespace, about.name) ? 'is not valid itself' : 'is missing')
  const reportNoSecret = (name: string) => {
    reportMissing('SecretNotFound', { kind: 'Secret', name })
    return false
  }
  return {
    view,
    namespace,
    problems,
    object: (kind, name) =>
      view.get(kind, namespace, name) ?? reportMissing('ReferenceNotFound', { kind: kind.kind, name }),
    secret: (name) => view.secret(namespace, name) !== undefined || reportNoSecret(name),
    secretKey({ name, key }) {
      const secret = view.secret(namespace, name)
      if (!secret) return reportNoSecret(name)
      if (secret.keys.has(key)) return true
      note('SecretKeyNotFound', { kind: 'Secret', name }, `has no key ${quote(key)}`)
      return false
    },
    configMap(name) {
      const present = view.configMap(namespace, name) !== undefined
      if (!present) reportMissing('ConfigMapNotFound', { kind: 'ConfigMap', name })
      return present
    },
    configMapKey({ name, key }) {
      const configMap = view.configMap(namespace, name)
      if (!configMap) return reportMissing('ConfigMapNotFound', { kind: 'ConfigMap', name })
      const text = configMap.data[key]
      if (text === undefined)
        return note('ConfigMapKeyNotFound', { kind: 'ConfigMap', name }, `has no key ${quote(key)}`)
      return text
    },
  }
}

/** Returns a valid config that a workload refers to; undefined, with a problem recorded, if it is not valid. */
export function findConfig<K extends KindDeclaration>(
  kind: K,
  check: CheckConfig<K>,
  name: string,
  resolver: Resolver,
): ObjectOf<K> | undefined {
  const object = resolver.object(kind, name)
  if (!object) return undefined
  const inner = startResolver(resolver.view, resolver.namespace)
  check(object, inner)
  const about = { kind: kind.kind, name }
  const title = `${kind.kind} ${JSON.stringify(name)}`
  for (const condition of ['Valid', 'ReferencesResolved'] as const) {
    const found = inner.problems.of(condition)
    if (found[0] === undefined) continue
    const reason = condition === 'Valid' ? 'ReferenceInvalid' : found[0].reason
    resolver.problems.add('ReferencesResolved', reason, { about, message: `${title}: ${formatProblems(found)}` })
  }
  return inner.problems.none ? object : undefined
}

/** The spec's shape of a CA bundle: a key of a ConfigMap. */
interface CaBundleRef {
  readonly configMapRef?: { readonly name: string; readonly key: string; readonly optional?: boolean }
}

/** Tells whether the bundle can be mounted: it exists and holds a certificate. An `optional` one may be absent. */
export function hasCaBundle(ref: CaBundleRef, pointer: string, resolver: Resolver): boolean {
  const { problems, view, namespace } = resolver
  const { name = '', key = 'ca.crt', optional } = ref.configMapRef ?? {}
  if (name === '') {
    problems.refuse(`${pointer}/configMapRef/name`, 'must be set')
    return false
  }
  if (optional === true && view.configMap(namespace, name)?.data[key] === undefined) return false
  const text = resolver.configMapKey({ name, key })
  if (text === undefined) return false
  if (text.includes('-----BEGIN CERTIFICATE-----')) return true
  const message = `key ${JSON.stringify(key)} of ConfigMap ${JSON.stringify(name)} holds no PEM certificate`
  problems.add('ReferencesResolved', 'CABundleInvalid', { message })
  return false
}

/**
 * Mounts the bundle and returns its path for a configuration. An `optional` bundle is always mounted, so that its
 * creation changes the configuration but not the pods.
 */
export function mountCaBundle(
  ref: CaBundleRef | undefined,
  pointer: string,
  resolver: Resolver,
  mounts: Mounts,
): string | undefined {
  if (ref === undefined) return undefined
  const { name = '', key = 'ca.crt', optional = false } = ref.configMapRef ?? {}
  const isFound = hasCaBundle(ref, pointer, resolver)
  if (name === '' || (!isFound && !optional)) return undefined
  const path = mounts.caFile(name, key, { optional })
  return isFound ? path : undefined
}

/** The location of a settings block in its object, and what resolves and mounts the references in it. */
export interface MountPlace {
  readonly at: string
  readonly resolver: Resolver
  readonly mounts: Mounts
}

/**
 * Builds the form of a settings block in a configuration file (`asFile`): references become paths, false flags are
 * omitted, keys are sorted. A missing reference is a problem at its pointer.
 */
export const mountSettings = <S extends TSchema>(schema: S, value: Static<S>, place: MountPlace): Static<FileForm<S>> =>
  sortedKeys(buildFileValue(schema as SchemaNode, value, place, true)) as Static<FileForm<S>>

function buildFileValue(node: SchemaNode, value: unknown, place: MountPlace, isRequired: boolean): unknown {
  if (node.mountedAs !== undefined) return mountReference(node, value, place, isRequired)
  if (Array.isArray(value)) {
    const { items } = node
    return items === undefined
      ? value
      : value
          .map((item, index) => buildFileValue(items, item, { ...place, at: `${place.at}/${index}` }, false))
          .filter((item) => item !== undefined)
  }
  return node.properties === undefined ? value : buildFileObject(node, value as Record<string, unknown>, place)
}

function buildFileObject(node: SchemaNode, value: Record<string, unknown>, place: MountPlace): Record<string, unknown> {
  const file: Record<string, unknown> = {}
  // The schema's order, so that the order of problems doesn't depend on the manifest.
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    const field = value[name]
    if (field === undefined || !isInFiles(child) || isOff(child, field)) continue
    // The other fields of a union are no substitute for the one that is set.
    const isRequired = node.required?.includes(name) === true || node.exactlyOne?.includes(name) === true
    const inFile = buildFileValue(child, field, { ...place, at: `${place.at}/${name}` }, isRequired)
    if (inFile !== undefined && !isEmptyList(child, inFile)) file[nameInFile(name, child)] = inFile
  }
  return file
}

const isOff = (node: SchemaNode, value: unknown) => value === false && node.default === false

/** Tells whether a list of references is empty after resolving. */
const isEmptyList = ({ items }: SchemaNode, value: unknown) =>
  items?.mountedAs !== undefined && Array.isArray(value) && value.length === 0

/** A key of a ConfigMap as the widely used operator names it in bundles of SPIFFE. */
interface ConfigMapKey {
  readonly configMapName: string
  readonly configMapKey: string
}

const readKeyRef = (ref: KeyRef | ConfigMapKey): KeyRef =>
  'configMapName' in ref ? { name: ref.configMapName, key: ref.configMapKey } : ref

function mountReference(
  { mountedAs }: SchemaNode,
  ref: unknown,
  { at, resolver, mounts }: MountPlace,
  isRequired: boolean,
): string | undefined {
  if (mountedAs === 'caBundle') return mountCaBundle(ref as Parameters<typeof mountCaBundle>[0], at, resolver, mounts)
  const { name, key } = readKeyRef(ref as KeyRef | ConfigMapKey)
  const isFound =
    mountedAs === 'secret' ? resolver.secretKey({ name, key }) : resolver.configMapKey({ name, key }) !== undefined
  if (!isFound && !isRequired) return undefined
  return mountedAs === 'secret' ? mounts.secretFile(name, key) : mounts.sourceFile(name, key)
}

type RedisSpec = Static<ReturnType<typeof redis>>

/** Builds the Redis settings from the `redis` block. `db`: the number if the block has none. */
export function buildRedis(redis: RedisSpec, db: number, place: MountPlace): RedisSettings {
  const { addr, sentinelConfig, clusterMode, aclUserConfig } = redis
  const database = sentinelConfig?.db ?? db
  return {
    ...(sentinelConfig === undefined
      ? { mode: clusterMode ? ('cluster' as const) : ('standalone' as const), addresses: addr ? [addr] : [] }
      : {
          mode: 'sentinel' as const,
          addresses: listSentinels(sentinelConfig, place.resolver.namespace),
          masterName: sentinelConfig.masterName,
        }),
    ...(database === 0 ? {} : { db: database }),
    ...(aclUserConfig === undefined
      ? {}
      : mountSettings(redisUser, aclUserConfig, { ...place, at: `${place.at}/aclUserConfig` })),
    ...mountSettings(redisConnection, redis, place),
  }
}

function listSentinels(config: NonNullable<RedisSpec['sentinelConfig']>, namespace: string): string[] {
  const { sentinelAddrs, sentinelService } = config
  if (sentinelService === undefined) return [...(sentinelAddrs ?? [])]
  return [`${sentinelService.name}.${sentinelService.namespace ?? namespace}.svc:${sentinelService.port}`]
}
