/**
 * The rooms of the house and which of them may import which; see the arrows in docs/architecture.md. Fails with a line
 * for every import that points the wrong way.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** A room: files below `path`, and the rooms its imports may point to, besides itself. The longest path wins. */
interface Room {
  readonly path: string
  readonly mayImport: readonly string[]
}

const planes = [
  'dataplane/server',
  'dataplane/config',
  'dataplane/telemetry',
  'dataplane/net',
  'dataplane/storage',
  'dataplane/identity',
]

export const rooms: readonly Room[] = [
  { path: 'cli', mayImport: ['crds', 'operator', 'dataplane'] },
  { path: 'crds/shared', mayImport: [] },
  { path: 'crds', mayImport: ['crds/shared'] },
  { path: 'operator/model', mayImport: ['crds'] },
  { path: 'operator/render', mayImport: ['crds', 'operator/model', 'operator/reconcile', 'dataplane/config'] },
  { path: 'operator/reconcile', mayImport: ['crds', 'operator/model', 'operator/render', 'dataplane/config'] },
  { path: 'operator/cluster', mayImport: ['crds', 'operator/model', 'operator/reconcile', 'dataplane/config'] },
  {
    path: 'operator/runtime',
    mayImport: ['crds', 'operator/model', 'operator/reconcile', 'operator/render', 'operator/cluster'],
  },
  { path: 'operator/deploy', mayImport: ['crds', 'operator/render', 'operator/cluster'] },
  { path: 'operator/standalone', mayImport: ['crds', 'operator', 'dataplane/config'] },
  { path: 'dataplane/config', mayImport: ['crds/shared'] },
  { path: 'dataplane/telemetry', mayImport: ['dataplane/config'] },
  { path: 'dataplane/server', mayImport: ['dataplane/config', 'dataplane/telemetry'] },
  { path: 'dataplane/net', mayImport: ['dataplane/config', 'dataplane/server', 'dataplane/telemetry'] },
  {
    path: 'dataplane/storage',
    mayImport: ['crds/shared', 'dataplane/config', 'dataplane/server', 'dataplane/net', 'dataplane/telemetry'],
  },
  {
    path: 'dataplane/identity',
    mayImport: ['dataplane/config', 'dataplane/server', 'dataplane/net', 'dataplane/telemetry'],
  },
  { path: 'dataplane/pages', mayImport: [] },
  { path: 'dataplane/gateway', mayImport: [...planes, 'crds/shared'] },
  { path: 'dataplane/registry', mayImport: [...planes, 'dataplane/pages', 'crds/shared'] },
]

const inside = (file: string, path: string) => file.startsWith(`${path}/`)

export function roomOf(file: string): Room | undefined {
  return rooms.filter((room) => inside(file, room.path)).sort((a, b) => b.path.length - a.path.length)[0]
}

/** Wrong arrows in one file's text, a line each. */
export function wrongArrows(file: string, source: string): string[] {
  const room = roomOf(file)
  if (!room) return [`${file}: lies in no room`]
  const wrong: string[] = []
  for (const match of source.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g)) {
    const target = normalize(join(dirname(file), match[1] as string))
    if (target === 'package.json') continue
    const own = roomOf(target)
    if (own?.path === room.path) continue
    if (!room.mayImport.some((path) => inside(target, path))) wrong.push(`${file}: may not import ${target}`)
  }
  return wrong
}

if (import.meta.main) {
  const root = new URL('..', import.meta.url).pathname
  const files = globSync('{cli,crds,operator,dataplane}/**/*.ts', { cwd: root })
  const wrong = files.flatMap((file) => wrongArrows(file, readFileSync(join(root, file), 'utf8')))
  for (const line of wrong) console.error(line)
  process.exit(wrong.length === 0 ? 0 : 1)
}
