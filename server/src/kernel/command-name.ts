/**
 * Returns how the reader of a message starts the program. `module` is the URL of a module of the program. `script` is the
 * path of the file that Node was started with.
 */
export const commandName = (module: string, script: string | undefined): string => {
  // The image and a global installation have the command on the path.
  if (script?.endsWith('/bin/bursar')) return 'bursar'
  // Only a clone runs TypeScript. npm installs JavaScript in a folder of the project, where npx finds it.
  return module.endsWith('.ts') ? 'pnpm bursar' : 'npx bursar'
}

/** The name of this program in messages, such as `npx bursar`. */
export const bursar = commandName(import.meta.url, process.argv[1])
