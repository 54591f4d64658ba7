import {
  COUNTED,
  countedUsage,
  countingManifest,
  MEASURED,
  readPeriod,
  type UsageFacts,
  usageCsv,
  usageQuery,
  usageRows,
  usageSum,
} from '../facts/usage.ts'
import { h } from '../pages/element.ts'
import { usagePage, usageSums } from '../pages/usage.ts'
import { workloadLinks } from '../pages/workloads.ts'
import { buildHead, listCallable, requirePart } from './pages.ts'
import { type Page, type Visit, waitBriefly } from './visit.ts'

/** The text for a workload whose counters are off. */
const NOT_COUNTED =
  'Its calls are not counted. Set usage.enabled on the workload, as below, or metrics.prometheusUrl in the configuration of a console in a pod.'

/** Returns the text for a workload that counts no calls, or does not count them by person. */
function explainMissing(missing: string | null): string | null {
  if (missing?.startsWith('HTTP 404') === true) return NOT_COUNTED
  return missing?.startsWith('HTTP 400') === true
    ? 'Calls are not counted by person: usage.people is disabled.'
    : missing
}

async function readUsage(visit: Visit): Promise<UsageFacts> {
  const { query, now, prometheus, places, session, isPage } = visit
  const object = requirePart(visit, 'usage')
  const head = await buildHead(visit, object)
  const { from, to, ...period } = readPeriod(query('from'), query('to'), now)
  const by = COUNTED.find((one) => one === query('by')) ?? 'tool'
  const facts = { ...head, from, to, by, choices: COUNTED }
  const nothing = { rows: [], other: null, since: null, right: null, manifest: null }
  const measured = MEASURED.find((one) => one === by)
  if (prometheus === undefined || measured === undefined) {
    const asked = places.usage(session.viewer, object, String(new URLSearchParams({ from, to, by })), by === 'person')
    const counted = countedUsage((await waitBriefly(asked, isPage)) ?? [{ missing: 'still asking' }])
    const missing = explainMissing(counted.missing)
    const manifest = missing === NOT_COUNTED ? countingManifest(head) : null
    return { ...facts, ...counted, source: 'counters', missing, manifest }
  }
  try {
    const samples = await prometheus.query(usageQuery(head, measured, { ...period, from, to }), period.end)
    return { ...facts, ...nothing, source: 'Prometheus', rows: usageRows(samples, measured), missing: null }
  } catch (error) {
    const missing = `Prometheus can’t be asked: ${(error as Error).message}`
    return { ...facts, ...nothing, source: 'Prometheus', missing }
  }
}

/** Shows how often the tools of a workload are called. */
export const usage: Page = async (visit) => {
  const facts = await readUsage(visit)
  const csv = visit.query('format') === 'csv' ? usageCsv(facts) : undefined
  return { title: `${facts.name}: usage`, facts, content: usagePage(facts), ...(csv !== undefined && { csv }) }
}

/** Shows the workloads whose usage can be displayed. */
export const usageHome: Page = async (visit) => {
  const { places, session, isPage, now } = visit
  const { workloads, asked } = listCallable(visit, 'usage')
  const { from, to } = readPeriod(undefined, undefined, now)
  const query = String(new URLSearchParams({ from, to, by: 'tool' }))
  const reports =
    (await waitBriefly(Promise.all(asked.map((one) => places.usage(session.viewer, one, query, false))), isPage)) ?? []
  const counted = workloads.slice(0, reports.length).map((one, index) => usageSum(one, reports[index] ?? []))
  const content = [
    h('h1', {}, 'Usage'),
    h('p', { class: 'lead' }, 'How often the tools of a workload are called, and how often they fail.'),
    counted.length > 0 && usageSums(counted, from, to),
    counted.length < workloads.length && [h('h2', {}, 'Workloads'), workloadLinks(workloads.slice(counted.length))],
    workloads.length === 0 && workloadLinks([]),
  ]
  return { title: 'Usage', facts: { from, to, counted, workloads }, content }
}
