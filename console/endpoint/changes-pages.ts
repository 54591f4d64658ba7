import { readDefinitionFacts } from '../facts/changes.ts'
import { changesPage, definitionsView, unpinned } from '../pages/changes.ts'
import { h } from '../pages/element.ts'
import { workloadLinks } from '../pages/workloads.ts'
import { buildHead, listCallable, requirePart } from './pages.ts'
import { type Page, type Visit, waitBriefly } from './visit.ts'

/** Returns the folder of the manifests, for a command. In a cluster it is unknown, so the result is a placeholder. */
const findFolder = ({ kind, title }: Visit['places']): string => (kind === 'machine' ? title : 'DIR')

/** Shows the definitions of one workload's servers. */
export const changes: Page = async (visit) => {
  const { places, session, isPage } = visit
  const object = requirePart(visit, 'changes')
  const report = (await waitBriefly(places.definitions(session.viewer, object), isPage)) ?? { missing: 'still asking' }
  const facts = { ...(await buildHead(visit, object)), ...readDefinitionFacts(report) }
  return { title: `${facts.name}: changes`, facts, content: changesPage(facts, findFolder(places)) }
}

/** Shows the definitions that wait for approval. */
export const changesHome: Page = async (visit) => {
  const { places, session, isPage } = visit
  const { workloads, asked } = listCallable(visit, 'changes')
  const reports =
    (await waitBriefly(Promise.all(asked.map((one) => places.definitions(session.viewer, one))), isPage)) ?? []
  const known = workloads.flatMap((one, index) => {
    const report = reports[index]
    return report ? [{ ...one, ...readDefinitionFacts(report) }] : []
  })
  const found = known.filter(({ changed }) => changed.length > 0)
  // A gateway reports its members' definitions too, so other workloads would count them twice.
  const gateways = known.filter(({ kind }) => kind === 'VirtualMCPServer')
  const sum = (of: 'approved' | 'unchecked') =>
    (gateways.length > 0 ? gateways : known).reduce((total, one) => total + one[of], 0)
  const facts = { changed: found, approved: sum('approved'), unchecked: sum('unchecked'), workloads }
  const content = [
    h('h1', {}, 'Changes'),
    h(
      'p',
      { class: 'lead' },
      'Servers may change what their tools say after somebody has approved them. This page lists the definitions that differ from the approved ones.',
    ),
    found.length === 0 &&
      facts.approved > 0 &&
      h(
        'p',
        { class: 'calm' },
        `✓ No changes: ${facts.approved.toLocaleString('en')} definitions are served as approved.`,
      ),
    found.length === 0 && facts.approved === 0 && facts.unchecked > 0 && unpinned(facts.unchecked, findFolder(places)),
    found.map((one) => [h('h2', {}, h('a', { href: one.href }, one.name)), definitionsView(one)]),
    h('h2', {}, 'Workloads'),
    workloadLinks(workloads),
  ]
  return { title: 'Changes', facts, content }
}
