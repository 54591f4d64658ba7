/**
 * `make image`: builds by the Dockerfile if a container engine answers, otherwise writes dist/image/portico.tar.
 * `--archive` always writes the archive; other arguments go to the engine. `--folders DIR` writes each layer to a
 * folder, for the Dockerfile.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { imageArchive } from './archive.ts'
import { IMAGE, LAYERS, porticoImage } from './portico.ts'
import { tar } from './tar.ts'

const root = join(import.meta.dirname, '../..')
const ENGINES = ['docker', 'podman', 'buildah']

/** Returns an engine that is installed and whose service answers. */
const findEngine = () => ENGINES.find((engine) => spawnSync(engine, ['info'], { stdio: 'ignore' }).status === 0)

function buildByEngine(engine: string, name: string): never {
  console.log(`building ${name} with ${engine}`)
  const { status } = spawnSync(engine, ['build', '--tag', name, ...process.argv.slice(2), '.'], {
    cwd: root,
    stdio: 'inherit',
  })
  process.exit(status ?? 1)
}

async function writeFolders(directory: string): Promise<never> {
  const { layers } = await porticoImage({ compress: false })
  for (const [index, entries] of layers.entries()) {
    const folder = join(directory, LAYERS[index] as string)
    mkdirSync(folder, { recursive: true })
    execFileSync('tar', ['--extract', '--same-permissions', '--directory', folder], { input: tar(entries) })
  }
  process.exit(0)
}

// All other arguments go to the engine.
const { values } = parseArgs({ options: { archive: { type: 'boolean' }, folders: { type: 'string' } }, strict: false })
if (typeof values.folders === 'string') await writeFolders(values.folders)

const engine = values.archive ? undefined : findEngine()
if (engine) buildByEngine(engine, IMAGE)

const file = join(root, 'dist', 'image', 'portico.tar')
mkdirSync(join(file, '..'), { recursive: true })
const archive = imageArchive(await porticoImage({ compress: true }))
writeFileSync(file, archive)
const path = relative(process.cwd(), file)
console.log(`${path}: ${IMAGE}, ${(archive.length / 1e6).toFixed(0)} MB. To load it, one of:
  ctr --namespace k8s.io images import ${path}
  docker load --input ${path}
  kind load image-archive ${path}`)
