import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspectManifests, type ObjectId, type Planned } from '../operator/cluster/files/index.ts'
import { buildStatus } from '../operator/reconcile/index.ts'
import { canonicalYaml } from '../operator/render/object/canonical.ts'
import { type Command, UsageError } from './command.ts'
import { hasErrors, printFindings } from './findings.ts'
import { groupOption, readApiGroup, readManifestPaths } from './options/manifests.ts'
import {
  adminFromOption,
  operatorNamespaceOption,
  podTemplateOption,
  podUsersOption,
  readAdminPeers,
  readPodTemplate,
} from './options/pod-options.ts'
import { defaultImage } from './package-info.ts'

/** The first line of the written files. It marks files that may be removed when nothing renders to them any more. */
const MARK = '# Rendered by portico render'

interface Rendered {
  readonly id: ObjectId
  readonly documents: readonly object[]
}

/** Returns the children in the order of their application, then the status, as an object of its own. */
function buildDocuments({ manifest, plan }: Planned, withStatus: boolean): Rendered {
  const { id, object } = manifest
  const children = plan.children === 'hold' ? [] : plan.children
  return { id, documents: withStatus ? [...children, buildStatus({ object, plan })] : children }
}

const formatStream = (documents: readonly object[]) => documents.map(canonicalYaml).join('---\n')

/** Returns a file name. A namespace holds no dot, so that two objects never get the same name. */
const formatFileName = ({ kind, namespace, name }: ObjectId) => `${kind.toLowerCase()}-${namespace}.${name}.yaml`

/** Writes one file for each owner, and removes those of earlier runs for owners that render to nothing now. */
function writeFolder(directory: string, rendered: readonly Rendered[]): readonly string[] {
  mkdirSync(directory, { recursive: true })
  const names = new Set(rendered.map(({ id }) => formatFileName(id)))
  for (const name of readdirSync(directory)) {
    if (!name.endsWith('.yaml') || names.has(name)) continue
    if (readFileSync(join(directory, name), 'utf8').startsWith(MARK)) rmSync(join(directory, name))
  }
  for (const { id, documents } of rendered) {
    const title = `${MARK} from ${id.kind} ${id.namespace}/${id.name}; edits are overwritten.\n`
    writeFileSync(join(directory, formatFileName(id)), title + formatStream(documents))
  }
  return [...names].sort()
}

export const command: Command = {
  name: 'render',
  synopsis: 'DIR|FILE … [options]',
  about: `Prints the Deployments, Services and so on that manifests become, as YAML: the same bytes for the same files.
If there is an error, nothing is rendered and the exit code is 1, so that a pipeline never applies half a set. With --status
it shows every object with the status that the operator would write, even if there are errors; don't apply that output.`,
  options: {
    directory: { type: 'string', short: 'o', value: 'DIR', description: 'Write one file an owner into this folder.' },
    status: { type: 'boolean', description: 'Add the status of every object.' },
    image: { type: 'string', value: 'IMAGE', default: defaultImage, description: 'Image of the data plane.' },
    'pod-template': podTemplateOption,
    'pod-users': podUsersOption,
    'admin-from': adminFromOption,
    'operator-namespace': operatorNamespaceOption,
    'api-group': groupOption,
  },
  async run(given, io) {
    const image = given.text('image') ?? defaultImage
    if (image === '') throw new UsageError('--image is empty')
    const { planned, findings } = inspectManifests(readManifestPaths(given), {
      group: readApiGroup(given, io),
      image,
      ...readPodTemplate(given),
      ...readAdminPeers(given, given.text('operator-namespace') ?? ''),
    })
    printFindings(findings, io)
    const isWrong = hasErrors(findings)
    if (planned.length === 0 && !isWrong)
      io.err('portico: nothing is rendered: these files have no object of Portico’s API group')
    const withStatus = given.flag('status')
    if (isWrong && !withStatus) return 1
    const rendered = planned
      .map((plan) => buildDocuments(plan, withStatus))
      .filter(({ documents }) => documents.length > 0)
    const directory = given.text('directory')
    if (directory === undefined) io.out(formatStream(rendered.flatMap(({ documents }) => documents)))
    else for (const name of writeFolder(directory, rendered)) io.out(`${join(directory, name)}\n`)
    return isWrong ? 1 : 0
  },
}
