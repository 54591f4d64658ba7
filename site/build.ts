/**
 * `make site`: writes the documentation as a static site to dist/site. REFS="v0.1 v0.2" puts these revisions side by
 * side, each in a folder of its name.
 */
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, posix } from 'node:path'
import { parseArgs } from 'node:util'
import MiniSearch from 'minisearch'
import { readContents, renderSitePage, SITE_STYLE } from './frame.ts'
import { type Article, renderMarkdown, resolveLink } from './markdown.ts'

const here = new URL('.', import.meta.url).pathname

/** The fields of a passage in the search index. */
const SEARCH = { idField: 'href', fields: ['heading', 'page', 'text'], storeFields: ['href', 'heading', 'page'] }

/** Returns the address of a Markdown file below the root of a version. */
const formatPath = (file: string): string =>
  file === 'README.md'
    ? 'index.html'
    : file
        .replace(/^docs\//u, '')
        .replace(/README\.md$/u, 'index.md')
        .replace(/\.md$/u, '.html')

const upFrom = (path: string): string => '../'.repeat(path.split('/').length - 1)

/** Writes the site of the checkout at `source` into `folder` and returns the paths of its pages. */
async function writeVersion(
  source: string,
  folder: string,
  version: string,
  hasVersions = false,
): Promise<readonly string[]> {
  const sections = readContents(source)
  const files = sections.flatMap((section) => section.files)
  const known = new Set(files)
  const articles = new Map<string, Article>()
  for (const file of files) {
    const buildLink = (target: string) => {
      const link = resolveLink(file, target)
      if (link === undefined) return target
      const index =
        existsSync(join(source, link.file)) && statSync(join(source, link.file)).isDirectory()
          ? `${link.file}/README.md`
          : link.file
      if (!known.has(index)) return undefined
      const path = posix.relative(posix.dirname(formatPath(file)), formatPath(index))
      return link.anchor === undefined ? path : `${path}#${link.anchor}`
    }
    articles.set(file, renderMarkdown(readFileSync(join(source, file), 'utf8'), buildLink))
  }
  const search = new MiniSearch(SEARCH)
  const findTitle = (file: string) => (file === 'README.md' ? 'Overview' : (articles.get(file)?.title ?? file))
  for (const [file, article] of articles) {
    const path = formatPath(file)
    const page = await renderSitePage({
      title: article.title,
      article: article.html,
      headings: article.headings,
      sections: sections.map((section) => ({
        title: section.title,
        entries: section.files.map((other) => ({
          title: findTitle(other),
          href: posix.relative(posix.dirname(path), formatPath(other)),
          isHere: other === file,
        })),
      })),
      base: upFrom(path),
      path,
      version,
      hasVersions,
    })
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), page)
    for (const { heading, text } of article.passages)
      search.add({ href: `${path}#${heading.id}`, heading: heading.text, page: findTitle(file), text })
  }
  writeFileSync(join(folder, 'site.css'), SITE_STYLE)
  copyFileSync(join(here, 'browser/site.js'), join(folder, 'site.js'))
  const minisearch = createRequire(import.meta.url).resolve('minisearch')
  copyFileSync(join(dirname(minisearch), '../umd/index.js'), join(folder, 'minisearch.js'))
  // A classic script: a browser fetches no JSON from file:.
  writeFileSync(
    join(folder, 'search-index.js'),
    `globalThis.porticoIndex=${JSON.stringify({ options: SEARCH, data: search })}\n`,
  )
  return files.map(formatPath)
}

/** Runs `use` with the Markdown files of a revision of the repository in a folder that is gone afterwards. */
async function withRevision<T>(root: string, ref: string, use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'portico-site-'))
  try {
    const archive = execFileSync('git', ['archive', ref, '--', '*.md'], { cwd: root, maxBuffer: 1 << 30 })
    execFileSync('tar', ['-x', '-C', folder], { input: archive })
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const { values } = parseArgs({
  options: { root: { type: 'string', default: join(here, '..') }, out: { type: 'string' } },
})
const { root } = values
const refs = (process.env['REFS'] ?? '').split(/\s+/u).filter((ref) => ref !== '')
const out = values.out ?? join(root, 'dist/site')
rmSync(out, { recursive: true, force: true })
const versions: { name: string; pages: readonly string[] }[] = []
if (refs.length === 0) {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  versions.push({ name: version, pages: await writeVersion(root, out, version) })
} else {
  for (const ref of refs) {
    const name = ref.replaceAll(/[^\w.-]/gu, '-')
    versions.push({
      name,
      pages: await withRevision(root, ref, (source) => writeVersion(source, join(out, name), name, true)),
    })
  }
  writeFileSync(join(out, 'versions.json'), `${JSON.stringify(versions.map(({ name }) => name))}\n`)
  writeFileSync(join(out, 'versions.js'), `globalThis.porticoVersions=${JSON.stringify(versions)}\n`)
  const newest = versions.at(-1)?.name ?? ''
  writeFileSync(
    join(out, 'index.html'),
    `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${newest}/index.html"><title>Portico</title><a href="${newest}/index.html">Portico ${newest}</a>\n`,
  )
}
console.log(
  `${versions.reduce((sum, { pages }) => sum + pages.length, 0)} pages in ${out}: open ${join(out, 'index.html')}`,
)
