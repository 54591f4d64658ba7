import { statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { objectKey } from '../../operator/cluster/files/index.ts'
import type { Command, Given, Io } from '../command.ts'
import { groupOption, manifestPaths } from '../options/manifests.ts'
import type { Server } from './collect.ts'
import { shown as printable } from './hidden.ts'
import { type PinPlan, pinName, planPins, writePlan } from './pin-file.ts'
import { collect, type PinInput, pinKubeconfigOption, pinsFolderOption, readPinInput, serverOption } from './servers.ts'

/** Returns the folder of the pins: the one that is named, else `pins` beside the manifests. */
export function pinsFolder(given: Given): string {
  const named = given.text('directory')
  if (named !== undefined) return named
  const [first = '.'] = manifestPaths(given)
  const isFolder = statSync(first, { throwIfNoEntry: false })?.isDirectory() === true
  return join(isFolder ? first : dirname(first), 'pins')
}

const title = ({ kind, namespace, name }: Server) => `${kind} ${namespace}/${name}`

function tell(server: Server, { changes, refused, outside }: PinPlan, io: Io): void {
  for (const { list, name, what } of changes)
    io.out(`${title(server)}: ${list}${name === '' ? '' : ` ${JSON.stringify(printable(name))}`}: ${what}\n`)
  for (const text of [...refused, ...outside]) io.err(`portico: ${title(server)}: ${text}`)
}

function planAll(input: PinInput, collected: Awaited<ReturnType<typeof collect>>, given: Given, io: Io) {
  const folder = pinsFolder(given)
  const namespaces = new Map<string, Set<string>>()
  for (const { kind, namespace, name } of input.servers) {
    const key = `${kind}/${name}`
    namespaces.set(key, (namespaces.get(key) ?? new Set()).add(namespace))
  }
  let failed = false
  const plans = input.servers.flatMap((server): readonly (readonly [Server, PinPlan])[] => {
    const found = collected.get(objectKey(server)) ?? 'it was not asked'
    if (typeof found === 'string') {
      io.err(`portico: ${title(server)}: ${found}`)
      failed = true
      return []
    }
    const namesNamespace = (namespaces.get(`${server.kind}/${server.name}`)?.size ?? 0) > 1
    const own = resolve(folder, `${pinName(server, namesNamespace)}.yaml`)
    const elsewhere = input.pins
      .filter((pins) => objectKey(pins.server) === objectKey(server) && resolve(pins.file) !== own)
      .map(({ pinned }) => pinned)
    const options = { folder, group: input.set.group, prune: given.flag('prune'), namesNamespace, elsewhere }
    return [[server, planPins(server, found, options)]]
  })
  return { plans, failed }
}

export const command: Command = {
  name: 'pin',
  synopsis: 'DIR|FILE … [options]',
  about: `Approves the definitions that servers show now: writes an MCPPin for each server, with the digests of its tools,
prompts, resources, templates, pages and instructions, and beside it each text, for the pull request in which somebody
reads them. What is approved stays so; --prune drops what is not shown any more. Writes nothing if nothing is new.

Merging is approving: read the texts, or what diff --pins says, before.`,
  options: {
    kubeconfig: pinKubeconfigOption,
    server: serverOption,
    directory: pinsFolderOption,
    check: { type: 'boolean', description: 'Writes nothing; exits 1 if something would be written.' },
    prune: { type: 'boolean', description: 'Drops digests that are not seen.' },
    'api-group': groupOption,
  },
  async run(given, io) {
    const input = readPinInput(given, io)
    if (input === undefined) return 1
    const { plans, failed } = planAll(input, await collect(input, given, io), given, io)
    const isOther = plans.some(([, { writes }]) => writes.size > 0)
    for (const [server, plan] of plans) tell(server, plan, io)
    if (!given.flag('check')) for (const [, plan] of plans) writePlan(plan)
    if (plans.length > 0 && !isOther) io.out('all definitions are approved; nothing to write\n')
    return failed || (given.flag('check') && isOther) ? 1 : 0
  },
}
