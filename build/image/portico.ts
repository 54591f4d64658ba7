/** The content of Portico's image, for an engine by the Dockerfile and as an archive. */
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, globSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import packageJson from '../../package.json' with { type: 'json' }
import { NODE_FLAGS } from '../node-flags.ts'
import { type Bom, type SystemFile, withFiles, withPrograms } from '../sbom.ts'
import { startCodes } from '../start.ts'
import type { ImageOptions } from './archive.ts'
import { debianPackages } from './debian-packages.ts'
import { fileEntry, type TarEntry } from './tar.ts'

const root = join(import.meta.dirname, '../..')

export const IMAGE = `portico:${packageJson.version}`
const USER = 65_532
export const NODE_PATH = 'usr/local/bin/node'
const PORTICO_PATH = 'usr/local/bin/portico'
export const SETTINGS = {
  // A shebang line passes at most one argument.
  entrypoint: [`/${NODE_PATH}`, '--disable-warning=ExperimentalWarning', ...NODE_FLAGS, `/${PORTICO_PATH}`],
  env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp', NODE_ENV: 'production' },
  user: `${USER}:${USER}`,
  workingDir: '/app',
} as const
const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt'

const text = (path: string, content: string, mode?: number): TarEntry => fileEntry(path, Buffer.from(content), mode)

/** Returns the files that every program expects: accounts, name look-up, authorities, a temporary folder. */
function collectSystem(): TarEntry[] {
  if (!existsSync(AUTHORITIES))
    throw new Error(`no ${AUTHORITIES} on this machine: install the package ca-certificates`)
  return [
    text('etc/passwd', `root:x:0:0:root:/:/sbin/nologin\nportico:x:${USER}:${USER}:portico:/tmp:/sbin/nologin\n`),
    text('etc/group', `root:x:0:\nportico:x:${USER}:\n`),
    text('etc/nsswitch.conf', 'hosts: files dns\n'),
    buildFileEntry(AUTHORITIES),
    { path: 'tmp', type: 'folder', mode: 0o1777 },
  ]
}

export const LAYERS = ['node', 'git', 'portico'] as const

export const nodeLayer = (): TarEntry[] => [...collectSystem(), ...collectProgram(NODE_PATH, process.execPath)]

/** Returns Git as far as a registry's sources need it: the command and its transport over HTTP(S). */
function buildGitLayer(): TarEntry[] {
  const { status, stdout } = spawnSync('git', ['--exec-path'], { encoding: 'utf8' })
  if (status !== 0) throw new Error('no git on this machine: registries in the image need it for their git sources')
  const folder = stdout.trim()
  return [
    ...collectProgram('usr/bin/git', join(folder, 'git')),
    ...collectProgram(`${folder.slice(1)}/git-remote-https`, join(folder, 'git-remote-https')),
    ...collectProgram(`${folder.slice(1)}/git-remote-http`, join(folder, 'git-remote-http')),
  ]
}

/** Returns the shared libraries and authorities among the entries of layers: third-party files beside the programs. */
function listSystemFiles(entries: readonly TarEntry[]): SystemFile[] {
  const files = entries.filter(({ path }) => /\.so(\.\d+)*$/.test(path) || `/${path}` === AUTHORITIES)
  const packages = debianPackages(files.map(({ path }) => `/${path}`))
  return files.flatMap((file) => {
    const { path, content } = file
    if (content === undefined) return []
    const type = `/${path}` === AUTHORITIES ? 'data' : 'library'
    return [{ path, type, content, package: packages.get(`/${path}`) }]
  })
}

/** Returns the bill of materials of the bundle, with the programs and files beside it. */
function buildBom(below: readonly TarEntry[]): Bom {
  const bom = JSON.parse(readFileSync(join(root, 'dist', 'sbom.cdx.json'), 'utf8')) as Bom
  const { stdout } = spawnSync('git', ['--version'], { encoding: 'utf8' })
  const programs = { node: process.versions.node, git: /\d[\w.]*/.exec(stdout)?.[0] ?? '' }
  return withFiles(withPrograms(bom, programs), listSystemFiles(below))
}

/**
 * Returns the bundle without source maps, with its start-up code. `below`: the lower layers, for the bill of materials.
 */
async function buildBundleLayer(below: readonly TarEntry[]): Promise<TarEntry[]> {
  const files = globSync('dist/{*.{js,cjs,wasm,start},package.json}', { cwd: root })
  if (!files.includes('dist/portico.js')) throw new Error('dist/ is empty: run `make bundle`')
  const codes = await startCodes(join(root, 'dist'))
  return [
    text(PORTICO_PATH, readFileSync(join(import.meta.dirname, 'portico'), 'utf8'), 0o755),
    buildFileEntry('app/package.json', join(root, 'package.json')),
    text('app/sbom.cdx.json', `${JSON.stringify(buildBom(below), null, 1)}\n`),
    ...files.map((file) => buildFileEntry(`app/dist/${basename(file)}`, join(root, file))),
    ...[...codes].map(([name, content]) => fileEntry(`app/dist/${name}`, content)),
  ]
}

/**
 * Makes Portico's image from dist/. Rejects if dist/ or a program is missing, or if a gateway or operator does not
 * start.
 */
export async function porticoImage(options: {
  readonly name?: string
  readonly compress: boolean
  /** The lowest layer, if several images share one. */
  readonly node?: readonly TarEntry[]
}): Promise<ImageOptions> {
  const below = [options.node ?? nodeLayer(), buildGitLayer()]
  return {
    name: options.name ?? IMAGE,
    layers: [...below, await buildBundleLayer(below.flat())],
    ...SETTINGS,
    labels: {
      'org.opencontainers.image.title': packageJson.name,
      'org.opencontainers.image.version': packageJson.version,
      'org.opencontainers.image.licenses': packageJson.license,
      'org.opencontainers.image.description': packageJson.description,
    },
    compress: options.compress,
  }
}

// Packs programs of this machine, with the shared libraries that they need, as entries of an image's layer.

/** Returns a file's entry. Merged-usr systems reach libraries by a link; in the image each has the requested name. */
const buildFileEntry = (path: string, source = path, mode = 0o644): TarEntry =>
  fileEntry(path.replace(/^\//, ''), readFileSync(realpathSync(source)), mode)

/** Returns the paths of the shared libraries of a program, including its dynamic linker, as `ldd` lists them. */
function listLibraries(program: string): string[] {
  const output = execFileSync('ldd', [program], { encoding: 'utf8' })
  const absent = /^\s*(\S+) => not found/m.exec(output)
  if (absent) throw new Error(`${program} needs ${absent[1]}, which this machine lacks`)
  return [...output.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].map((match) => match[1] as string)
}

/** Returns a program without its symbol table if `strip` is installed: a fifth of Node's binary is symbols. */
function stripProgram(program: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'portico-image-'))
  try {
    const copy = join(folder, 'program')
    copyFileSync(realpathSync(program), copy)
    const { status } = spawnSync('strip', ['--strip-unneeded', copy], { stdio: 'ignore' })
    return readFileSync(status === 0 ? copy : realpathSync(program))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Returns `program` of this machine at `path` of the image, with its libraries that exist here. */
function collectProgram(path: string, program: string): TarEntry[] {
  return [
    fileEntry(path, stripProgram(program), 0o755),
    ...listLibraries(program).map((library) => buildFileEntry(library, library, 0o755)),
  ]
}
