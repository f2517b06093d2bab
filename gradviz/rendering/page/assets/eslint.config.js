// The script of the page, its tests and what makes it; types are checked by tsc.
import js from "@eslint/js";
import globals from "globals";

const rules = {
  ...js.configs.recommended.rules,
  "array-callback-return": "error",
  "consistent-return": "error",
  "default-case-last": "error",
  "eqeqeq": "error",
  "func-style": ["error", "declaration", { allowArrowFunctions: true }],
  "max-len": ["error", { code: 180, ignoreRegExpLiterals: true }],
  "max-lines": ["error", 450],
  "max-params": ["error", 5],
  "no-constructor-return": "error",
  "no-else-return": "error",
  "no-eval": "error",
  "no-implicit-coercion": "error",
  "no-implied-eval": "error",
  "no-param-reassign": "error",
  "no-self-compare": "error",
  "no-shadow": "error",
  "no-unused-expressions": "error",
  "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
  "no-useless-assignment": "error",
  "no-useless-return": "error",
  "no-var": "error",
  "no-warning-comments": ["error", { terms: ["@ts-ignore", "@ts-expect-error", "@ts-nocheck", "eslint-disable"], location: "anywhere" }],
  "object-shorthand": "error",
  "prefer-const": "error",
  "prefer-template": "error",
};

export default [
  { ignores: ["**/page/assets/page.js"] },
  { linterOptions: { reportUnusedDisableDirectives: "error", noInlineConfig: true } },
  { files: ["**/src/**/*.js", "**/served.js"], languageOptions: { globals: globals.browser }, rules },
  {
    // Fields are told by their names: `place[4]` says nothing. A computed index, or the first of many, is another thing.
    files: ["**/src/**/*.js"],
    ignores: ["**/src/document/decode-document.js"],
    rules: {
      "no-restricted-syntax": ["error", {
        selector: "MemberExpression[computed=true] > Literal.property[value>0]",
        message: "Give what has several fields a name for each of them.",
      }],
    },
  },
  { files: ["**/*.mjs", "**/*.config.js"], languageOptions: { globals: globals.node }, rules },
];
