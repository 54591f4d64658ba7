/**
 * Checks the documentation for dead links and anchors, skipped levels of headings, and pages that no page of the site
 * links to.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Article, renderMarkdown, resolveLink } from '../site/markdown.ts'

/** Returns a finding for each dead link, dead anchor and skipped level in the Markdown files below `root`. */
export function checkLinks(root: string, files: readonly string[]): readonly string[] {
  const read = new Map<string, Article>()
  const readArticle = (file: string): Article => {
    const article = read.get(file) ?? renderMarkdown(readFileSync(join(root, file), 'utf8'), (target) => target)
    read.set(file, article)
    return article
  }
  const findDeadLinks = (file: string) =>
    readArticle(file).links.flatMap(({ target, line }) => {
      const link = resolveLink(file, target)
      if (link === undefined) return []
      if (!existsSync(join(root, link.file))) return [`${file}:${line}: ${target} leads nowhere`]
      if (link.anchor === undefined || !link.file.endsWith('.md')) return []
      const isThere = readArticle(link.file).headings.some(({ id }) => id === link.anchor)
      return isThere ? [] : [`${file}:${line}: ${link.file} has no heading #${link.anchor}`]
    })
  const findSkippedLevels = (file: string) =>
    readArticle(file).headings.flatMap(({ level, text, line }, index, all) => {
      const before = all[index - 1]?.level ?? 0
      return level > before + 1 ? [`${file}:${line}: "${text}" skips a level of headings`] : []
    })
  return files.flatMap((file) => [...findDeadLinks(file), ...findSkippedLevels(file)])
}

if (import.meta.main) {
  const root = new URL('..', import.meta.url).pathname
  const findings = checkLinks(root, globSync(['*.md', 'docs/**/*.md', 'samples/**/*.md'], { cwd: root }))
  for (const finding of findings) console.error(finding)
  process.exitCode = findings.length === 0 ? 0 : 1
}
