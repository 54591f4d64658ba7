import { request } from 'undici'
import { requirePod } from '../../console/places/pods.ts'
import { isObject } from '../../crds/settings/json.ts'
import type { Explanation } from '../../dataplane/policy/index.ts'
import { readWithin } from '../../operator/cluster/read-within.ts'
import { type Command, UsageError } from '../command.ts'
import { buildQuestion, printExplanation, questionOptions } from '../explain.ts'
import { clusterOptions, inCluster, readWorkload, WORKLOAD } from './cluster.ts'
import { MOST_BYTES } from './endpoint.ts'
import { withForwarded } from './program.ts'
import { printable } from './tree.ts'

/** Makes the texts of an answer printable while it is parsed. */
const toPrintable = (_key: string, value: unknown) => (typeof value === 'string' ? printable(value) : value)

type Explained = Explanation & { readonly exists: boolean }

const TIMEOUT_MS = 30_000

function readExplanation(answer: unknown): Explained {
  const { allowed, reason, policies, errors } = isObject(answer) ? answer : {}
  if (typeof allowed !== 'boolean' || typeof reason !== 'string' || !Array.isArray(policies) || !Array.isArray(errors))
    throw new Error('the pod’s answer has another form than a data plane’s')
  return answer as Explained
}

async function ask(base: string, question: object): Promise<Explained> {
  const { body, statusCode } = await request(`${base}/explain`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(question),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  const text = await readWithin(MOST_BYTES, body)
  if (statusCode !== 200) throw new Error(printable(`the pod answers HTTP ${statusCode}: ${text.slice(0, 500)}`))
  return readExplanation(JSON.parse(text, toPrintable))
}

export const command: Command = {
  name: 'explain',
  synopsis: `${WORKLOAD} --tool NAME [--caller FILE] [options]`,
  about: `Says which policy of a running workload allows or denies a call of one of its tools. No tool is called.
Exits 1 if the call is denied.`,
  options: {
    ...questionOptions,
    ...clusterOptions,
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
  },
  run: (given, io) =>
    inCluster(given, io, async (cluster) => {
      const { type, id, caller, arguments: parameters } = buildQuestion(given)
      const workload = await readWorkload(given, cluster)
      if (workload.kind === 'MCPRegistry') throw new UsageError('an MCPRegistry has no policies on calls')
      const pod = await requirePod(cluster, workload)
      const question = { caller, [type.toLowerCase()]: id, arguments: parameters }
      const answer = await withForwarded({ pod, port: 'admin' }, cluster, io, (base) => ask(base, question))
      if (given.text('output') === 'json') io.out(`${JSON.stringify(answer)}\n`)
      else printExplanation(`${workload.kind} ${cluster.namespace}/${workload.metadata.name}`, answer, io)
      if (!answer.exists) io.err(`portico: the workload has no ${type.toLowerCase()} ${printable(id)}`)
      return answer.allowed ? 0 : 1
    }),
}
