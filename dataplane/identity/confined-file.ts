import { realpathSync } from 'node:fs'
import { sep } from 'node:path'
import { type ReadSecretFile, secretFile } from '../config/secret-file.ts'

/**
 * Reads a secret that must lie below a folder, wherever links lead: a link out of it is an error that names the file.
 * The folder itself may be a link, as `/var/run` is in most images, and links inside it are what Kubernetes mounts.
 */
export function confinedFile(path: string, folder: string): ReadSecretFile {
  const read = secretFile(path)
  return function readConfinedFile() {
    let isInside = false
    try {
      isInside = realpathSync(path).startsWith(realpathSync(folder) + sep)
    } catch (error) {
      throw new Error(`the file ${path} can’t be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
    }
    if (!isInside) throw new Error(`the file ${path} is a link that leads out of ${folder}`)
    return read()
  }
}
