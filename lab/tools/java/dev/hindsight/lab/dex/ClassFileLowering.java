// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab.dex;

import static org.objectweb.asm.Opcodes.*;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.FieldNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * Turns class files of Java 9 to 17 into what dx and ART 10 understand (Java 8, lambdas aside):
 *
 * <ul>
 *   <li>StringConcatFactory becomes StringBuilder.
 *   <li>Private members that nest mates use become package-private.
 *   <li>Private methods are called with invokespecial, as before Java 11.
 *   <li>The covariant returns that ByteBuffer and its like have since Java 9 become Buffer's.
 * </ul>
 */
final class ClassFileLowering {
  private static final int JAVA_8 = 52;
  private static final int JAVA_11 = 55;
  private static final String BUILDER = "java/lang/StringBuilder";

  private final ClassPool pool;

  ClassFileLowering(ClassPool pool) {
    this.pool = pool;
  }

  void run() {
    for (ClassNode node : pool.all()) {
      openNestMates(node);
    }
    for (ClassNode node : pool.all()) {
      lower(node);
      if (major(node) > JAVA_8) {
        node.version = JAVA_8;
      }
      node.nestHostClass = null;
      node.nestMembers = null;
    }
  }

  private static int major(ClassNode node) {
    return node.version & 0xffff;
  }

  /** Opens the private members of other classes of the nest that this class uses. */
  private void openNestMates(ClassNode user) {
    if (nest(user) == null) {
      return;
    }
    for (MethodNode method : user.methods) {
      for (AbstractInsnNode insn : method.instructions) {
        if (insn instanceof FieldInsnNode) {
          FieldInsnNode use = (FieldInsnNode) insn;
          ClassNode owner = nestMate(user, use.owner);
          if (owner != null) {
            for (FieldNode field : owner.fields) {
              if (field.name.equals(use.name) && field.desc.equals(use.desc)) {
                field.access &= ~ACC_PRIVATE;
              }
            }
          }
        } else if (insn instanceof MethodInsnNode) {
          MethodInsnNode use = (MethodInsnNode) insn;
          ClassNode owner = nestMate(user, use.owner);
          if (owner != null) {
            for (MethodNode target : owner.methods) {
              if (target.name.equals(use.name) && target.desc.equals(use.desc)) {
                open(owner, target);
              }
            }
          }
        }
      }
    }
  }

  private static void open(ClassNode owner, MethodNode method) {
    if ((method.access & ACC_PRIVATE) == 0) {
      return;
    }
    method.access &= ~ACC_PRIVATE;
    // Nothing may override it, just as nothing could while it was private.
    if (!method.name.equals("<init>") && (owner.access & ACC_INTERFACE) == 0) {
      method.access |= ACC_FINAL;
    }
  }

  private static String nest(ClassNode node) {
    if (node.nestHostClass != null) {
      return node.nestHostClass;
    }
    return node.nestMembers != null ? node.name : null;
  }

  /** The class of this name if it is another one of the same nest. */
  private ClassNode nestMate(ClassNode user, String name) {
    ClassNode owner = name.equals(user.name) ? null : pool.get(name);
    return owner != null && nest(user).equals(nest(owner)) ? owner : null;
  }

  private void lower(ClassNode node) {
    Set<String> privateMethods = new HashSet<>();
    for (MethodNode method : node.methods) {
      if ((method.access & ACC_PRIVATE) != 0 && (method.access & ACC_STATIC) == 0) {
        privateMethods.add(method.name + method.desc);
      }
    }
    List<MethodNode> concatenations = new ArrayList<>();
    for (MethodNode method : node.methods) {
      for (AbstractInsnNode insn : method.instructions.toArray()) {
        if (insn instanceof MethodInsnNode) {
          MethodInsnNode call = (MethodInsnNode) insn;
          boolean virtual = call.getOpcode() == INVOKEVIRTUAL || call.getOpcode() == INVOKEINTERFACE;
          if (major(node) >= JAVA_11
              && virtual
              && call.owner.equals(node.name)
              && privateMethods.contains(call.name + call.desc)) {
            call.setOpcode(INVOKESPECIAL);
          }
          lowerBufferReturn(method, call);
          lowerDriverRegistration(method, call);
        } else if (insn instanceof InvokeDynamicInsnNode) {
          InvokeDynamicInsnNode indy = (InvokeDynamicInsnNode) insn;
          if (indy.bsm.getOwner().equals("java/lang/invoke/StringConcatFactory")) {
            MethodNode concat = concatenation(node, indy, concatenations.size());
            concatenations.add(concat);
            boolean isInterface = (node.access & ACC_INTERFACE) != 0;
            method.instructions.set(
                insn,
                new MethodInsnNode(INVOKESTATIC, node.name, concat.name, concat.desc, isInterface));
          }
        }
      }
    }
    node.methods.addAll(concatenations);
  }

  private static void lowerBufferReturn(MethodNode method, MethodInsnNode call) {
    if (call.owner.matches("java/nio/(Byte|Char|Short|Int|Long|Float|Double|MappedByte)Buffer")
        && call.name.matches("position|limit|flip|clear|rewind|mark|reset")
        && call.desc.endsWith(")L" + call.owner + ";")) {
      call.desc = call.desc.substring(0, call.desc.indexOf(')') + 1) + "Ljava/nio/Buffer;";
      method.instructions.insert(call, new TypeInsnNode(CHECKCAST, call.owner));
    }
  }

  /** Android lacks java.sql.DriverAction, which came with Java 8: drops that argument of registerDriver. */
  private static void lowerDriverRegistration(MethodNode method, MethodInsnNode call) {
    if (call.owner.equals("java/sql/DriverManager")
        && call.desc.equals("(Ljava/sql/Driver;Ljava/sql/DriverAction;)V")) {
      call.desc = "(Ljava/sql/Driver;)V";
      method.instructions.insertBefore(call, new InsnNode(POP));
    }
  }

  /** A method that concatenates what the call site would have, with a StringBuilder. */
  private static MethodNode concatenation(ClassNode node, InvokeDynamicInsnNode indy, int number) {
    boolean isInterface = (node.access & ACC_INTERFACE) != 0;
    int access = (isInterface ? ACC_PUBLIC : ACC_PRIVATE) | ACC_STATIC | ACC_SYNTHETIC;
    MethodNode method = new MethodNode(access, "$concat$" + number, indy.desc, null, null);
    InsnList code = method.instructions;
    code.add(new TypeInsnNode(NEW, BUILDER));
    code.add(new InsnNode(DUP));
    code.add(new MethodInsnNode(INVOKESPECIAL, BUILDER, "<init>", "()V", false));
    Type[] arguments = Type.getArgumentTypes(indy.desc);
    // In a recipe, \1 stands for the next argument and \2 for the next constant.
    String recipe =
        indy.name.equals("makeConcat") ? "\1".repeat(arguments.length) : (String) indy.bsmArgs[0];
    StringBuilder literal = new StringBuilder();
    int argument = 0;
    int constant = 1;
    int slot = 0;
    for (char c : recipe.toCharArray()) {
      if (c == '\2') {
        literal.append(indy.bsmArgs[constant++]);
      } else if (c != '\1') {
        literal.append(c);
      } else {
        appendLiteral(code, literal);
        Type type = arguments[argument++];
        code.add(new VarInsnNode(type.getOpcode(ILOAD), slot));
        slot += type.getSize();
        append(code, appended(type));
      }
    }
    appendLiteral(code, literal);
    code.add(
        new MethodInsnNode(INVOKEVIRTUAL, BUILDER, "toString", "()Ljava/lang/String;", false));
    code.add(new InsnNode(ARETURN));
    method.maxStack = 4;
    method.maxLocals = slot;
    return method;
  }

  private static void appendLiteral(InsnList code, StringBuilder literal) {
    if (literal.length() > 0) {
      code.add(new LdcInsnNode(literal.toString()));
      append(code, "Ljava/lang/String;");
      literal.setLength(0);
    }
  }

  private static void append(InsnList code, String type) {
    code.add(
        new MethodInsnNode(
            INVOKEVIRTUAL, BUILDER, "append", "(" + type + ")L" + BUILDER + ";", false));
  }

  /** The parameter type of the overload of StringBuilder.append for a value of this type. */
  private static String appended(Type type) {
    switch (type.getSort()) {
      case Type.BYTE:
      case Type.SHORT:
        return "I";
      case Type.ARRAY:
        return "Ljava/lang/Object;";
      case Type.OBJECT:
        return type.getInternalName().equals("java/lang/String")
            ? "Ljava/lang/String;"
            : "Ljava/lang/Object;";
      default:
        return type.getDescriptor();
    }
  }
}
