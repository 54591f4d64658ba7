/**
 * Writes the bill of materials as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json): the same bytes for the same
 * input.
 */
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import type { DebianPackage } from './image/debian-packages.ts'

export interface Locked {
  readonly version?: string
  /** `sha512-` and the base64 digest of the package's archive. */
  readonly integrity?: string
  readonly license?: string
}

interface Component {
  readonly type: 'library' | 'application' | 'data'
  readonly 'bom-ref': string
  readonly name: string
  readonly version?: string
  readonly purl?: string
  readonly licenses?: readonly object[]
  readonly hashes?: readonly object[]
}

export interface Bom {
  readonly bomFormat: 'CycloneDX'
  readonly specVersion: '1.6'
  readonly version: 1
  readonly metadata: { readonly component: Component }
  readonly components: readonly Component[]
}

/** Returns the folder of the package that owns a file; undefined for files of ours. */
const findPackageFolder = (file: string) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]

const readName = (folder: string) => folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)

/** SPDX expressions and single identifiers have a field each. */
const formatLicenses = (license: string) =>
  /[ ()]/.test(license) ? [{ expression: license }] : [{ license: { id: license } }]

function describeComponent(
  type: Component['type'],
  name: string,
  { version = '', license, integrity }: Locked,
): Component & { readonly purl: string } {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  const digest = integrity?.startsWith('sha512-') && Buffer.from(integrity.slice(7), 'base64').toString('hex')
  return {
    type,
    'bom-ref': purl,
    name,
    version,
    purl,
    ...(license && { licenses: formatLicenses(license) }),
    ...(digest && { hashes: [{ alg: 'SHA-512', content: digest }] }),
  }
}

/**
 * Returns the packages that own files of a bundle (paths below the root). Throws an Error for one that is not in the
 * lock file.
 */
export function buildBom(
  own: Required<Pick<Locked, 'version' | 'license'>> & { readonly name: string },
  lock: Readonly<Record<string, Locked>>,
  files: Iterable<string>,
): Bom {
  const folders = [...files].flatMap((file) => findPackageFolder(file) ?? [])
  const found = new Map<string, Component & { readonly purl: string }>()
  for (const folder of [...new Set(folders)].sort()) {
    const locked = lock[folder]
    if (locked?.version === undefined) throw new Error(`${folder} is bundled and not in package-lock.json`)
    const one = describeComponent('library', readName(folder), locked)
    found.set(one.purl, one)
  }
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: describeComponent('application', own.name, own) },
    components: [...found.values()].sort((one, other) => (one.purl < other.purl ? -1 : 1)),
  }
}

/** Adds programs beside the bundle, by their names and versions. */
export const withPrograms = (bom: Bom, programs: Readonly<Record<string, string>>): Bom => ({
  ...bom,
  components: [
    ...bom.components,
    ...Object.entries(programs).map(([name, version]) => {
      const purl = `pkg:generic/${name}@${version}`
      return { type: 'application' as const, 'bom-ref': purl, name, version, purl }
    }),
  ],
})

export interface SystemFile {
  readonly path: string
  readonly type: 'library' | 'data'
  readonly content: Uint8Array
  /** The package that owns the file, if known. */
  readonly package: DebianPackage | undefined
}

/** Adds files of the system, each once, by path, with its digest and the package that owns it. */
export function withFiles(bom: Bom, files: readonly SystemFile[]): Bom {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const paths = [...byPath.keys()].sort()
  return {
    ...bom,
    components: [...bom.components, ...paths.map((path) => describeFile(byPath.get(path) as SystemFile))],
  }
}

function describeFile({ path, type, content, package: from }: SystemFile): Component {
  const hashes = [{ alg: 'SHA-512', content: createHash('sha512').update(content).digest('hex') }]
  const named = { type, 'bom-ref': `file:/${path}`, name: basename(path) }
  if (from === undefined) return { ...named, hashes }
  const { name, version, architecture, distribution } = from
  const purl = `pkg:deb/${distribution}/${name}@${encodeURIComponent(version)}?arch=${architecture}`
  return { ...named, version, purl, hashes }
}
