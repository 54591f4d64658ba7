import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A folder that behaves as a ConfigMap or Secret volume in a pod (kubelet's AtomicWriter). */
export interface MountedVolume {
  readonly directory: string
  /** Replaces the whole content: writes a new timestamped folder, and renames the `..data` link over the old one. */
  update(files: Readonly<Record<string, string>>): Promise<void>
  remove(): Promise<void>
}

export async function mountVolume(files: Readonly<Record<string, string>>): Promise<MountedVolume> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-volume-'))
  const linked = new Set<string>()

  async function update(content: Readonly<Record<string, string>>): Promise<void> {
    const fresh = `..${new Date().toISOString().replace(/[:.-]/g, '_')}_${randomUUID().slice(0, 8)}`
    await mkdir(join(directory, fresh))
    for (const [name, text] of Object.entries(content)) await writeFile(join(directory, fresh, name), text)
    const old = await readlink(join(directory, '..data')).catch(() => undefined)
    await symlink(fresh, join(directory, '..data_tmp'))
    await rename(join(directory, '..data_tmp'), join(directory, '..data'))
    for (const name of Object.keys(content))
      if (!linked.has(name)) {
        await symlink(join('..data', name), join(directory, name))
        linked.add(name)
      }
    if (old !== undefined) await rm(join(directory, old), { recursive: true })
  }

  await update(files)
  return { directory, update, remove: () => rm(directory, { recursive: true, force: true }) }
}
