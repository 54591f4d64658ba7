import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { DEFAULT_GROUP } from '../crds/index.ts'
import { findFiles } from '../operator/cluster/files/find.ts'
import { ApiServer } from '../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../operator/cluster/kubernetes/kube-config.ts'
import { fetchLiveObjects, type Groups, migrateText } from '../operator/cluster/migrate.ts'
import { canonicalYaml } from '../operator/render/object/canonical.ts'
import { type Command, type Given, type Io, UsageError } from './command.ts'
import { readApiGroup } from './options/manifests.ts'

interface Source {
  readonly name: string
  readonly path: string
  readonly text: string
}

const groupOption = { type: 'string', value: 'GROUP' } as const

function readFiles(paths: readonly string[]): Source[] {
  const absent = paths.find((path) => !existsSync(path))
  if (absent !== undefined) throw new Error(`${absent}: no such file or folder`)
  return paths.flatMap((root) => {
    const isFolder = statSync(root).isDirectory()
    return findFiles([root]).files.map(({ path }) => ({
      name: path,
      path: isFolder ? relative(root, path) : basename(path),
      text: readFileSync(path, 'utf8'),
    }))
  })
}

async function fetchSources(kubeconfig: string, from: string, namespace: string | undefined): Promise<Source[]> {
  const config = loadKubeConfig(kubeconfig)
  try {
    const objects = await fetchLiveObjects(new ApiServer(config, 'portico-migrate'), from, namespace)
    return objects.map((object) => {
      const { kind, metadata } = object
      const path = `${kind.toLowerCase()}-${metadata.namespace}.${metadata.name}.yaml`
      return { name: path, path, text: canonicalYaml(object) }
    })
  } finally {
    await config.closePool()
  }
}

function readGroups(given: Given, io: Io): Groups {
  const to = readApiGroup(given, io, 'to') ?? DEFAULT_GROUP
  const from = readApiGroup(given, { ...io, env: {} }, 'from')
  if (from === undefined) throw new UsageError('--from is missing: the API group that the manifests have now')
  if (from === to) throw new UsageError(`--from and --to are the same, ${to}`)
  return { from, to }
}

async function readSources(given: Given, from: string): Promise<Source[]> {
  const kubeconfig = given.text('kubeconfig')
  if (given.positionals.length > 0 && kubeconfig !== undefined)
    throw new UsageError('takes either files or --kubeconfig')
  if (kubeconfig !== undefined) return fetchSources(kubeconfig, from, given.text('namespace'))
  if (given.positionals.length === 0) throw new UsageError('files or folders of manifests are missing')
  return readFiles(given.positionals)
}

function write(directory: string, path: string, text: string): void {
  const file = join(directory, path)
  if (existsSync(file) && readFileSync(file, 'utf8') !== text) throw new Error(`${file}: exists already`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const endLine = (text: string) => (text.endsWith('\n') ? text : `${text}\n`)

export const command: Command = {
  name: 'migrate',
  synopsis: 'DIR|FILE … --from GROUP [options]',
  about: `Moves manifests of the same kinds from one API group to another, in either direction: the objects, and what names
their group. Nothing else is changed: comments, quotes and order stay. Kinds, fields and annotations that Portico does
not have stay as they are and are listed on standard error, and the exit code is 1. With --kubeconfig it reads the live
objects of a cluster instead of files, without the status and without fields that controllers wrote.`,
  options: {
    from: { ...groupOption, description: 'API group that the manifests have now. Required.' },
    to: { ...groupOption, description: `API group that they get. Default: ${DEFAULT_GROUP}.` },
    directory: {
      type: 'string',
      short: 'o',
      value: 'DIR',
      description:
        'Write the files into this folder instead of standard output; files that are there are not overwritten.',
    },
    kubeconfig: { type: 'string', value: 'FILE', description: 'Read the live objects of this cluster.' },
    namespace: { type: 'string', value: 'NAME', description: 'Of these, only those in this namespace.' },
  },
  async run(given, io) {
    const groups = readGroups(given, io)
    const directory = given.text('directory')
    let objects = 0
    let errors = 0
    const texts: string[] = []
    for (const { name, path, text } of await readSources(given, groups.from)) {
      const migration = migrateText(text, groups)
      objects += migration.objects
      for (const { severity, line, message } of migration.findings) {
        if (severity === 'error') errors += 1
        io.err(`${name}:${line}: ${severity}: ${message}`)
      }
      if (directory === undefined) texts.push(endLine(migration.text))
      else write(directory, path, migration.text)
    }
    io.out(texts.join('---\n'))
    io.err(`portico: ${objects} objects from ${groups.from} to ${groups.to}; ${errors} parts have no counterpart`)
    return errors > 0 ? 1 : 0
  },
}
