import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A group of pages in the navigation. */
export interface Section {
  readonly title: string
  /** Markdown files by their paths below the root. */
  readonly files: readonly string[]
}

/** The order in which a reader meets the pages. Files that a revision does not have are left out. */
const ORDER: readonly Section[] = [
  { title: 'Start', files: ['README.md', 'docs/first-hour.md', 'docs/install.md'] },
  {
    title: 'Tasks',
    files: [
      'docs/clients.md',
      'docs/enterprise.md',
      'docs/machines.md',
      'docs/login-providers.md',
      'docs/authentication.md',
      'docs/authorization.md',
      'docs/rate-limits.md',
      'docs/workflows.md',
      'docs/tool-search.md',
      'docs/gitops.md',
      'docs/console.md',
      'docs/kubectl.md',
    ],
  },
  {
    title: 'Concepts',
    files: [
      'docs/glossary.md',
      'docs/backends.md',
      'docs/protocol.md',
      'docs/skills.md',
      'docs/discovery.md',
      'docs/sessions.md',
      'docs/authorization-server.md',
      'docs/tokens.md',
      'docs/registry.md',
      'docs/operator.md',
    ],
  },
  { title: 'Reference', files: ['docs/reference/README.md'] },
  {
    title: 'Operate',
    files: [
      'docs/production.md',
      'docs/troubleshooting.md',
      'docs/security.md',
      'docs/audit.md',
      'docs/telemetry.md',
      'docs/performance.md',
      'SECURITY.md',
      'CHANGELOG.md',
    ],
  },
  { title: 'Contribute', files: ['CONTRIBUTING.md', 'docs/architecture.md', 'docs/decisions/README.md'] },
]

/** Returns the Markdown files of a folder below the root: the overview first, then by name. */
function inFolder(root: string, folder: string): readonly string[] {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  return names
    .sort((a, b) => Number(b === 'README.md') - Number(a === 'README.md') || a.localeCompare(b))
    .map((name) => `${folder}/${name}`)
}

/** Returns the sections of the site for the checkout at `root`. Pages of docs/ without a section come under Tasks. */
export function readContents(root: string): readonly Section[] {
  const exists = (file: string) => {
    try {
      readFileSync(join(root, file))
      return true
    } catch {
      return false
    }
  }
  // The list of all pages is what the navigation shows.
  const named = new Set(['docs/README.md', ...ORDER.flatMap(({ files }) => files)])
  const others = inFolder(root, 'docs').filter((file) => !named.has(file))
  return ORDER.map(({ title, files }) => {
    const found = files.filter(exists).flatMap((file) => {
      const folder = /^(docs\/\w+)\/README\.md$/.exec(file)?.[1]
      return folder === undefined ? [file] : inFolder(root, folder)
    })
    return { title, files: title === 'Tasks' ? [...found, ...others] : found }
  }).filter(({ files }) => files.length > 0)
}
