import { createHash } from 'node:crypto'

/** The folder of all mounts that the data plane reads. Standalone keeps the same folders in its state directory. */
export const MOUNT_ROOT = '/etc/portico'

/** Readable by owner and group (the pod's fsGroup), by nobody else. */
const FILE_MODE = 0o440

interface VolumeSource {
  readonly volume: string
  readonly folder: string
  readonly type: 'secret' | 'configMap'
  readonly object: string
  readonly keys: Set<string>
  /** True if all users of the file can do without it: the pod starts and keeps running whether or not it exists. */
  isOptional: boolean
}

/**
 * The files that a data plane needs, collected while its configuration is built, and mounted as whole volumes (a
 * `subPath` mount is never updated). Paths are relative to the configuration file's folder.
 */
export interface Mounts {
  secretFile(name: string, key: string): string
  /** Mounts a CA bundle. With `optional` the pod has the file whenever the bundle exists. */
  caFile(configMap: string, key: string, options?: { readonly optional: boolean }): string
  sourceFile(configMap: string, key: string): string
  /** Mounts a token of the pod's own service account for another audience. */
  audienceToken(name: string, audience: string): string
  /** Mounts the pod's own token for the API server, or the cluster's CA. */
  clusterFile(name: 'token' | 'ca.crt'): string
  volumes(): readonly object[]
  volumeMounts(): readonly object[]
}

const isLabel = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

/** The folder in which a data plane writes its state. */
export const STATE_PATH = '/var/lib/portico'
export const STATE_VOLUME = 'portico-state'

export const stateMount = { name: STATE_VOLUME, mountPath: STATE_PATH }
export const stateEnvironment = [{ name: 'PORTICO_STATE_DIR', value: STATE_PATH }]

/** Builds a volume's name, which is a DNS label. An object's name may be longer and contain dots. */
function volumeName(prefix: string, name: string): string {
  const plain = `${prefix}-${name}`
  if (plain.length <= 63 && isLabel.test(name)) return plain
  return `${prefix}-${createHash('sha256').update(name).digest('hex').slice(0, 16)}`
}

const byVolume = (a: VolumeSource, b: VolumeSource) => (a.volume < b.volume ? -1 : 1)

/** The lifetime of a projected token. The kubelet renews it, and its readers read it anew each time. */
const TOKEN_SECONDS = 3600

/** Builds the volume with the API server's CA, this pod's token for it and, for client libraries, the namespace. */
export const apiAccessVolume = (name: string, options: { readonly namespace: boolean }) => ({
  name,
  projected: {
    defaultMode: FILE_MODE,
    sources: [
      { serviceAccountToken: { expirationSeconds: TOKEN_SECONDS, path: 'token' } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      ...(options.namespace
        ? [
            {
              downwardAPI: {
                items: [{ fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' }, path: 'namespace' }],
              },
            },
          ]
        : []),
    ],
  },
})

const audienceVolume = (name: string, audience: string) => ({
  name: volumeName('portico-token', name),
  projected: {
    defaultMode: FILE_MODE,
    sources: [{ serviceAccountToken: { audience, expirationSeconds: TOKEN_SECONDS, path: 'token' } }],
  },
})

export const CLUSTER_VOLUME = 'portico-cluster'

/** Starts with only the configuration's own ConfigMap, which is mounted whole at `config/`. */
export function startMounts(configMap: string): Mounts {
  const sources = new Map<string, VolumeSource>()
  const audiences = new Map<string, string>()
  let cluster = false

  const file = (
    { type, folder, prefix }: Pick<VolumeSource, 'type' | 'folder'> & { readonly prefix: string },
    {
      object,
      key,
      isOptional = false,
    }: { readonly object: string; readonly key: string; readonly isOptional?: boolean },
  ) => {
    const volume = volumeName(`portico-${prefix}`, object)
    let source = sources.get(volume)
    if (!source) {
      source = { volume, folder: `${folder}/${object}`, type, object, keys: new Set(), isOptional: true }
      sources.set(volume, source)
    }
    source.keys.add(key)
    source.isOptional &&= isOptional
    return `../${source.folder}/${key}`
  }

  return {
    secretFile: (object, key) => file({ type: 'secret', folder: 'secrets', prefix: 'secret' }, { object, key }),
    caFile: (object, key, { optional } = { optional: false }) =>
      file({ type: 'configMap', folder: 'ca', prefix: 'ca' }, { object, key, isOptional: optional }),
    sourceFile: (object, key) => file({ type: 'configMap', folder: 'sources', prefix: 'source' }, { object, key }),
    audienceToken(name, audience) {
      audiences.set(name, audience)
      return `../tokens/${name}/token`
    },
    clusterFile(name) {
      cluster = true
      return `../cluster/${name}`
    },
    volumes: () => [
      { name: 'portico-config', configMap: { name: configMap, defaultMode: FILE_MODE } },
      ...(cluster ? [apiAccessVolume(CLUSTER_VOLUME, { namespace: false })] : []),
      ...[...audiences].map(([name, audience]) => audienceVolume(name, audience)),
      ...[...sources.values()].sort(byVolume).map(({ volume, type, object, keys, isOptional }) => {
        const items = [...keys].sort().map((key) => ({ key, path: key }))
        const content = { defaultMode: FILE_MODE, items, ...(isOptional ? { optional: true } : {}) }
        return type === 'secret'
          ? { name: volume, secret: { secretName: object, ...content } }
          : { name: volume, configMap: { name: object, ...content } }
      }),
    ],
    volumeMounts: () => [
      { name: 'portico-config', mountPath: `${MOUNT_ROOT}/config`, readOnly: true },
      ...(cluster ? [{ name: CLUSTER_VOLUME, mountPath: `${MOUNT_ROOT}/cluster`, readOnly: true }] : []),
      ...[...audiences.keys()].map((name) => ({
        name: volumeName('portico-token', name),
        mountPath: `${MOUNT_ROOT}/tokens/${name}`,
        readOnly: true,
      })),
      ...[...sources.values()]
        .sort(byVolume)
        .map(({ volume, folder }) => ({ name: volume, mountPath: `${MOUNT_ROOT}/${folder}`, readOnly: true })),
    ],
  }
}
