/**
 * Attacks the memory of a gateway while another client calls it: each attack on its own process, then all of them in turn
 * on one. Fails if a process uses too much memory or the other client gets no answer.
 * Usage: hostile.ts [each|turn] [words in names of attacks]
 */
import { besiege, findings } from './siege.ts'

const [first = '', ...rest] = process.argv.slice(2)
const only = first === 'each' || first === 'turn' ? first : undefined
const words = only === undefined ? process.argv.slice(2) : rest

const found: string[] = []
for (const fresh of [true, false]) {
  if (only !== undefined && fresh !== (only === 'each')) continue
  console.log(fresh ? 'Each attack on a new process:' : 'All attacks in turn on one process:')
  await besiege({ share: 1, words, fresh }, (siege) => {
    const { name, peak, statuses, served, wrong, seconds } = siege
    const text = `${(peak / 1024 / 1024).toFixed(0).padStart(4)} MiB  ${name}: ${JSON.stringify(statuses)}`
    console.log(`${text}, others: ${served} served, ${wrong.length} not, ${seconds.toFixed(0)} s`)
    found.push(...findings(siege))
  })
}
for (const finding of found) console.error(finding)
process.exit(found.length === 0 ? 0 : 1)
