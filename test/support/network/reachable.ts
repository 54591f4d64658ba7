import { copyFile, link, mkdir, readdir, readlink, stat, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/**
 * Makes a folder of programs reachable for every user. If it is below a private folder, such as root's home, it is linked
 * to `place`, or copied across file systems.
 */
export async function reachable(programs: string, place: string): Promise<string> {
  if (await isOpen(programs)) return programs
  await linkTree(programs, place)
  return place
}

/** Tells whether everybody may enter the folder and its parents. */
async function isOpen(folder: string): Promise<boolean> {
  const { mode } = await stat(folder)
  const above = dirname(folder)
  return (mode & 0o001) !== 0 && (above === folder || (await isOpen(above)))
}

async function linkTree(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 })
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await linkTree(source, target)
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target)
    else await link(source, target).catch(() => copyFile(source, target))
  }
}
