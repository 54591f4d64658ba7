/**
 * Makes container images without a container engine: one tar that is both an OCI image layout and a `docker save`
 * archive. `ctr images import`, `docker load`, `podman load`, `kind load image-archive` and `skopeo copy oci-archive:`
 * accept it.
 */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { fileEntry, type TarEntry, tar } from './tar.ts'

export interface ImageOptions {
  readonly name: string
  /** The layers from the lowest one up. Engines store equal layers of two images once. */
  readonly layers: readonly (readonly TarEntry[])[]
  readonly entrypoint: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly user: string
  readonly workingDir: string
  readonly labels?: Readonly<Record<string, string>>
  /** True for a smaller archive that takes some seconds longer. */
  readonly compress: boolean
}

const computeDigest = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const blobPath = (digest: string) => `blobs/${digest.replace(':', '/')}`
const json = (value: unknown) => Buffer.from(JSON.stringify(value))

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' }

/** Completes `portico:0.1.0` as engines do; containerd needs the full name. */
function completeName(name: string): string {
  const [first = ''] = name.split('/')
  if (name.includes('/') && /[.:]|^localhost$/.test(first)) return name
  return name.includes('/') ? `docker.io/${name}` : `docker.io/library/${name}`
}

/** Returns the archive's bytes. The same files give the same bytes, and so the same image id. */
export function imageArchive(options: ImageOptions): Buffer {
  const blobs = new Map<string, Uint8Array>()
  const addBlob = (mediaType: string, bytes: Uint8Array) => {
    const digest = computeDigest(bytes)
    blobs.set(digest, bytes)
    return { mediaType, digest, size: bytes.length }
  }
  const layers = options.layers.map((entries) => {
    const plain = tar(entries)
    const descriptor = options.compress
      ? addBlob('application/vnd.oci.image.layer.v1.tar+gzip', gzipSync(plain))
      : addBlob('application/vnd.oci.image.layer.v1.tar', plain)
    return { diffId: computeDigest(plain), descriptor }
  })
  const config = addBlob(
    'application/vnd.oci.image.config.v1+json',
    json({
      architecture: architectures[process.arch] ?? process.arch,
      os: 'linux',
      config: {
        User: options.user,
        Env: Object.entries(options.env).map(([name, value]) => `${name}=${value}`),
        Entrypoint: options.entrypoint,
        WorkingDir: options.workingDir,
        ...(options.labels ? { Labels: options.labels } : {}),
      },
      rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    }),
  )
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const manifest = addBlob(
    mediaType,
    json({ schemaVersion: 2, mediaType, config, layers: layers.map(({ descriptor }) => descriptor) }),
  )
  const name = completeName(options.name)
  const annotations = {
    'io.containerd.image.name': name,
    'org.opencontainers.image.ref.name': name.slice(name.lastIndexOf(':') + 1),
  }
  return tar([
    fileEntry('oci-layout', json({ imageLayoutVersion: '1.0.0' })),
    fileEntry('index.json', json({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] })),
    fileEntry(
      'manifest.json',
      json([
        {
          Config: blobPath(config.digest),
          RepoTags: [options.name],
          Layers: layers.map(({ descriptor }) => blobPath(descriptor.digest)),
        },
      ]),
    ),
    ...[...blobs].map(([digest, bytes]) => fileEntry(blobPath(digest), bytes)),
  ])
}
