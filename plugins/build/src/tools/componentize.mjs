// componentize.mjs ENTRY WIT OUT: bundles a module and makes it a component.
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { argv, exit } from 'node:process';

import { componentize } from '@bytecodealliance/componentize-js';
import { build } from 'esbuild';

const [entry, witPath, out] = argv.slice(2);
const bundle = join(dirname(out), 'bundle.js');
await mkdir(dirname(out), { recursive: true });
try {
  await build({
    entryPoints: [entry],
    outfile: bundle,
    bundle: true,
    format: 'esm',
    // Neither Node nor a browser: what only they have is an error here and not in a table's run.
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['import', 'module', 'default'],
    target: 'es2022',
    external: ['sluice:*'],
    logLevel: 'warning',
  });
} catch {
  // esbuild has said why.
  exit(1);
}
try {
  const { component } = await componentize({
    sourcePath: bundle,
    witPath,
    worldName: 'plugin',
    // All of WASI that the engine could use: the component is a plain one.
    disableFeatures: ['stdio', 'random', 'clocks', 'http', 'fetch-event'],
  });
  await writeFile(out, component);
} catch (error) {
  console.error(error.message);
  exit(1);
}
